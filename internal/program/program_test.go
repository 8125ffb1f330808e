package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"containerd github.com/containerd/containerd v1.7.24 88bf19b": "1.7 1.7.24",
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6":  "1.6 1.6.20~ds1",
		"containerd github.com/containerd/containerd/v2 v2.4.2 abc":   "2.4 2.4.2",
		"Docker version 29.0.0, build 1":                              "29.0 29.0.0",
		"6.1.0-9-amd64":                                               "6.1 6.1.0-9-amd64",
		"containerd":                                                  "0.0 ",
		"":                                                            "0.0 ",
	} {
		if v, part := ParseVersion(text); v.String()+" "+part != want {
			t.Errorf("%q: %v %q, want %q", text, v, part, want)
		}
	}
}

func TestBefore(t *testing.T) {
	for v, want := range map[Version]bool{{1, 7}: true, {2, 1}: true, {2, 2}: false, {2, 10}: false, {3, 0}: false, {}: false} {
		if v.Before(2, 2) != want {
			t.Errorf("%v before 2.2: %v", v, !want)
		}
	}
}

// script writes a program and returns its path.
func script(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	if got := Find(root, "runc"); got != "" {
		t.Errorf("without a program: %s", got)
	}
	for dir, mode := range map[string]os.FileMode{"usr/local/bin": 0o644, "usr/bin": 0o755} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "runc"), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Find(root, "runc"), filepath.Join(root, "usr/bin/runc"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOutput(t *testing.T) {
	for name, test := range map[string]struct {
		text      string
		mode      os.FileMode
		want, err string
	}{
		"version":      {"echo tool v1.2.3", 0o755, "1.2.3", ""},
		"execute-only": {"echo tool v1.2.3", 0o511, "1.2.3", ""},
		"long":         {"echo 1.2.3; yes | head -c 100000", 0o755, "1.2.3", ""},
		"no version":   {"echo hello", 0o755, "", "prints no version"},
		"fails":        {"exit 3", 0o755, "", "exit status 3"},
		"writable":     {"echo 1.2.3", 0o777, "", "other users can write this program"},
		"group":        {"echo 1.2.3", 0o775, "", "other users can write this program"},
		"data":         {"echo 1.2.3", 0o644, "", "permission denied"},
		"hangs":        {"exec sleep 30", 0o755, "", "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			file := script(t, test.text, test.mode)
			_, part, err := ReadVersion(ctx, file)
			if part != test.want || (err == nil) != (test.err == "") {
				t.Fatalf("%q, %v; want %q, %q", part, err, test.want, test.err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.err) || !strings.HasPrefix(err.Error(), file) || strings.Contains(err.Error(), "/proc/self")) {
				t.Errorf("%v; want %q", err, test.err)
			}
		})
	}
	if _, err := Output(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Output(t.Context(), filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// TestOutputOfCheckedFile: the arguments and the name reach the program, and it runs from the file that was checked.
func TestOutputOfCheckedFile(t *testing.T) {
	file := script(t, `echo "$0 $1"`, 0o755)
	out, err := Output(t.Context(), file, "x")
	if out != "/proc/self/fd/3 x\n" && out != "/dev/fd/3 x\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
