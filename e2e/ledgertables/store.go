package ledgertables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/candor-project/candor/e2e/celllog"
)

// A Store holds the measured cells in a file with one JSON object per line. A cell is measured if the file contains its whole
// line.
type Store struct {
	log   *celllog.Log
	cells map[Cell]Result
}

// record is a line of the file.
type record struct {
	Cell
	Result
}

const (
	cellsName  = "cells.jsonl"
	tablesName = "tables.md"
)

// Open reads the cells of a directory, which it creates if necessary. Only one process can open a directory.
func Open(dir string) (s *Store, err error) {
	s = new(Store)
	s.log, err = celllog.Open(filepath.Join(dir, cellsName), func(lines []byte) (err error) {
		s.cells, err = parseCells(lines)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// parseCells returns the cells of complete lines. If a cell has several lines, parseCells returns the result in the last line.
func parseCells(text []byte) (map[Cell]Result, error) {
	cells, number := map[Cell]Result{}, 0
	for line := range bytes.Lines(text) {
		number++
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		cells[r.Cell] = r.Result
	}
	return cells, nil
}

// Has reports whether a cell is measured.
func (s *Store) Has(c Cell) bool {
	_, ok := s.cells[c]
	return ok
}

// Add stores the result of a cell. After Add, the result survives a crash.
func (s *Store) Add(c Cell, r Result) error {
	if err := s.log.Add(record{c, r}); err != nil {
		return err
	}
	s.cells[c] = r
	return nil
}

// WriteTables writes the tables into the directory, and returns their file.
func (s *Store) WriteTables(settings Settings) (file string, err error) {
	file = filepath.Join(filepath.Dir(s.log.Name()), tablesName)
	return file, os.WriteFile(file, []byte(settings.Tables(s.cells)), 0o644)
}

// Close closes the file.
func (s *Store) Close() error { return s.log.Close() }
