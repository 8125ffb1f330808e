// Package celllog stores the results of a long measurement in a file with one JSON object per line. After an interruption, the next
// measurement continues with the cells that the file lacks.
package celllog

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

// A Log is an open file of results. Only one process can open a file.
type Log struct{ file *os.File }

// Open opens a file, and creates the file and its directory if necessary. It passes the complete lines of the file to parse. If parse
// returns nil, Open removes a last line without an end, which a killed process has left. Otherwise, the file does not change.
func Open(name string, parse func(lines []byte) error) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Log{file}
	if err := l.read(parse); err != nil {
		file.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) read(parse func(lines []byte) error) error {
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%s: another process measures into this directory", l.file.Name())
		}
		return fmt.Errorf("lock %s: %w", l.file.Name(), err)
	}
	text, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	complete := text[:bytes.LastIndexByte(text, '\n')+1]
	if err := parse(complete); err != nil {
		return fmt.Errorf("%s: %w", l.file.Name(), err)
	}
	if err := l.file.Truncate(int64(len(complete))); err != nil {
		return err
	}
	_, err = l.file.Seek(0, io.SeekEnd)
	return err
}

// Add appends a record as a line. After Add, the record survives a crash.
func (l *Log) Add(record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

// Name returns the path of the file.
func (l *Log) Name() string { return l.file.Name() }

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
