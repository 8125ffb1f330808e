package celllog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLog: complete lines remain, a line without an end is removed, and the file has a single owner.
func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "cells.jsonl")
	l, lines, err := Open(name)
	if err != nil || len(lines) > 0 || l.Name() != name {
		t.Fatalf("%v, %q", err, lines)
	}
	if err := l.Add(map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(name); err == nil || !strings.Contains(err.Error(), "another process measures") {
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
	if l, lines, err = Open(name); err != nil || string(lines) != "{\"a\":1}\n" {
		t.Fatalf("%v, %q", err, lines)
	}
	defer l.Close()
	if err := l.Add(2); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "{\"a\":1}\n2\n" {
		t.Errorf("%v, %q", err, text)
	}
	if err := l.Add(func() {}); err == nil {
		t.Error("a function was stored")
	}
}
