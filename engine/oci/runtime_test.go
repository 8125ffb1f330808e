package oci

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindRuntime(t *testing.T) {
	dir := t.TempDir()
	usualDirs = []string{filepath.Join(dir, "usual")}
	program := func(name string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	finds := func(path, asked, want string) {
		t.Helper()
		t.Setenv("PATH", path)
		got, err := findRuntime(asked)
		if strings.HasPrefix(want, "/") != (err == nil) || err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("PATH=%s, asked %q: %q %v, want %q", path, asked, got, err, want)
		}
	}
	finds("", "", "install runc or crun")
	usual := program("usual/crun")
	finds("", "", usual)
	crun := program("bin/crun")
	finds(dir+"/bin", "", crun)
	runc := program("bin/runc")
	finds(dir+"/bin", "", runc)
	finds(dir+"/bin", "crun", crun)
	finds("", usual, usual)
	finds("", dir+"/bin/none", "set CANDOR_RUNTIME")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	finds("", self, "is candor itself")
}

// TestCallKills: a runtime that does not end in time is killed. This is an error and no exit code of the runtime.
func TestCallKills(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runc")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(late)
	if code, err := call(ctx, file, nil, os.Stdin); !errors.Is(err, late) || code != 0 {
		t.Errorf("code %d, %v", code, err)
	}
}
