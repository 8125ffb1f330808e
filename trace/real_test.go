package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// realTraces is the folder of real traces; a test without it is skipped.
func realTraces(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../shared/traces")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Skip("no ../shared/traces beside the project: the real traces are not here")
	}
	return dir
}

// drain reads a trace to its end and closes it.
func drain(t testing.TB, r Reader) int {
	t.Helper()
	n := 0
	var e Event
	for {
		err := r.Next(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}
