package ledgertables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// open opens the store of a directory.
func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestStore: a second process finds the measured cells, but not a cell of other settings or of another run.
func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cells")
	plan := parse(t, "none charge", "2", "").Plan()
	s := open(t, dir)
	results := map[Cell]Result{}
	for i, c := range plan[:5] {
		results[c] = Result{Own: float64(i), Delay: Delay{Count: i, Median: time.Duration(i), P99: time.Second}}
		if err := s.Add(c, results[c]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "another process measures into this directory") {
		t.Errorf("a second process opens the directory: %v", err)
	}
	s.Close()
	s = open(t, dir)
	for i, c := range plan {
		if s.Has(c) != (i < 5) || s.cells[c] != results[c] {
			t.Errorf("%s: %t, %+v", c, s.Has(c), s.cells[c])
		}
	}
	for _, other := range []string{"1", "11"} {
		if c := parse(t, "none", "2", other).Plan()[0]; s.Has(c) {
			t.Errorf("%+v is measured", c)
		}
	}
}

// TestStoreInterrupted: a line without an end is no cell. The next cell gets a line of its own.
func TestStoreInterrupted(t *testing.T) {
	plan := parse(t, "none", "1", "").Plan()
	dir := t.TempDir()
	s := open(t, dir)
	for _, c := range plan[:2] {
		if err := s.Add(c, Result{Own: 1}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	file := filepath.Join(dir, cellsName)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Index(string(text), "\n") + 1
	for end := start; end < len(text); end++ {
		if err := os.WriteFile(file, text[:end], 0o644); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir)
		if !s.Has(plan[0]) || s.Has(plan[1]) {
			t.Errorf("after %d of %d bytes: %t, %t", end, len(text), s.Has(plan[0]), s.Has(plan[1]))
		}
		if err := s.Add(plan[2], Result{}); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = open(t, dir)
		if !s.Has(plan[0]) || s.Has(plan[1]) || !s.Has(plan[2]) {
			t.Errorf("after %d of %d bytes and a new cell: %v", end, len(text), s.cells)
		}
		s.Close()
	}
}

// TestStoreInvalid: a complete line that is no cell is an error, and the file is not changed.
func TestStoreInvalid(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, cellsName)
	const text = "{}\nno cell\n{\"Own\":"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "cells.jsonl: line 2: ") {
		t.Error(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
}
