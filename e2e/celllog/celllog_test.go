package celllog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLog: complete lines remain, a line without an end is removed, and the file has a single owner.
func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "cells.jsonl")
	var lines string
	read := func(text []byte) error { lines = string(text); return nil }
	l, err := Open(name, read)
	if err != nil || lines != "" || l.Name() != name {
		t.Fatalf("%v, %q", err, lines)
	}
	if err := l.Add(map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, read); err == nil || !strings.Contains(err.Error(), "another process measures") {
		t.Errorf("a second owner: %v", err)
	}
	l.Close()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"b"`)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	holds := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%v, %q, want %q", err, text, want)
		}
	}
	if _, err := Open(name, func([]byte) error { return errors.New("bad line") }); err == nil || err.Error() != name+": bad line" {
		t.Errorf("refused lines: %v", err)
	}
	holds("{\"a\":1}\n{\"b\"")
	if l, err = Open(name, read); err != nil || lines != "{\"a\":1}\n" {
		t.Fatalf("%v, %q", err, lines)
	}
	defer l.Close()
	if err := l.Add(2); err != nil {
		t.Fatal(err)
	}
	holds("{\"a\":1}\n2\n")
	if err := l.Add(func() {}); err == nil {
		t.Error("a function was stored")
	}
}
