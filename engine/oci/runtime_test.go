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
	check := func(path, given, want string) {
		t.Helper()
		t.Setenv("PATH", path)
		got, err := findRuntime(given)
		if strings.HasPrefix(want, "/") != (err == nil) || err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("PATH=%s, runtime %q: %q %v, want %q", path, given, got, err, want)
		}
	}
	check("", "", "install runc or crun")
	usual := program("usual/crun")
	check("", "", usual)
	crun := program("bin/crun")
	check(dir+"/bin", "", crun)
	runc := program("bin/runc")
	check(dir+"/bin", "", runc)
	check(dir+"/bin", "crun", crun)
	check("", usual, usual)
	check("", dir+"/bin/none", "set CANDOR_RUNTIME")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	check("", self, "is candor itself")
}

// TestCallKillsLateRuntime: a runtime is killed when the context ends. The result is the cause of the context
// and no exit code.
func TestCallKillsLateRuntime(t *testing.T) {
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
