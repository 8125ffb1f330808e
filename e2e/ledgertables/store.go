package ledgertables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Store holds the measured cells in a file with one JSON object per line. A cell is complete as soon as its line is.
type Store struct {
	file  *os.File
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

// Open reads the cells of a directory, which it creates if necessary. A last line without an end, which a killed process has left, is removed.
// Only one process can open a directory.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, cellsName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	s := &Store{file: file}
	if err := s.read(); err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) read() error {
	if err := unix.Flock(int(s.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%s: another process measures into this directory", s.file.Name())
		}
		return fmt.Errorf("lock %s: %w", s.file.Name(), err)
	}
	text, err := io.ReadAll(s.file)
	if err != nil {
		return err
	}
	complete := text[:bytes.LastIndexByte(text, '\n')+1]
	if s.cells, err = parseCells(complete); err != nil {
		return fmt.Errorf("%s: %w", s.file.Name(), err)
	}
	if err := s.file.Truncate(int64(len(complete))); err != nil {
		return err
	}
	_, err = s.file.Seek(0, io.SeekEnd)
	return err
}

// parseCells returns the cells of complete lines. If a cell has several lines, the last line counts.
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
	line, err := json.Marshal(record{c, r})
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.cells[c] = r
	return nil
}

// WriteTables writes the tables into the directory, and returns their file.
func (s *Store) WriteTables(settings Settings) (file string, err error) {
	file = filepath.Join(filepath.Dir(s.file.Name()), tablesName)
	return file, os.WriteFile(file, []byte(settings.Tables(s.cells)), 0o644)
}

// Close closes the file.
func (s *Store) Close() error { return s.file.Close() }
