package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFirstLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"docker: Error response from daemon: no such image\nSee 'docker create --help'.\n": "no such image",
		"\nError: no space left\n": "no space left",
		"unknown flag: --x\r\nSee": "unknown flag: --x",
	} {
		if got := FirstLine([]byte(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestCheckFlags: CheckFlags refuses flags that candor sets, flags that conflict with candor, and arguments
// that are not flags.
func TestCheckFlags(t *testing.T) {
	for line, good := range map[string]bool{
		"":                            true,
		"-v /data:/data --network no": true,
		"--memory 1g":                 true,
		"--cpus 2":                    false,
		"-v /a:/a --cpuset-cpus=0":    false,
		"--cpu-shares=2":              false,
		"-c 2":                        false,
		"-itc=2":                      false,
		"-it":                         true,
		"--runtime=runc":              false,
		"--cgroup-parent /x":          false,
		"--rm":                        false,
		"--restart always":            false,
		"image":                       false,
	} {
		if err := CheckFlags(strings.Fields(line)); (err == nil) != good || err != nil && !errors.Is(err, ErrBadEngine) {
			t.Errorf("%q: got %v, want accepted: %v", line, err, good)
		}
	}
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]string{
		"":       "no docker, nor podman, nor nerdctl in the PATH",
		"podman": "no podman in the PATH",
		"lxc":    "must be one of docker, podman, nerdctl",
	} {
		if _, err := Find(context.Background(), name); !errors.Is(err, ErrBadEngine) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}

// script returns an engine whose command is a shell script.
func script(t *testing.T, text string) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Engine{Name: "docker", Path: path, Runtime: "candor"}
}

// TestCreate: Create returns the container ID from the last line of the output, and an error if the output
// has no ID.
func TestCreate(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]string{
		"echo " + id:                           "",
		"echo WARNING: no swap; echo " + id:    "",
		"echo Usage: docker create --help":     `no container ID in "Usage: docker create --help"`,
		"true":                                 `no container ID in ""`,
		"echo Error: no space left >&2; false": "no space left",
	} {
		got, err := script(t, text).Create(context.Background(), Container{Image: "box"}, nil)
		if want == "" && (got != id || err != nil) || want != "" && (got != "" || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestPatience: a call to an engine that hangs returns an error after the timeout.
func TestPatience(t *testing.T) {
	before := patience
	defer func() { patience = before }()
	patience = time.Millisecond
	if _, err := script(t, "exec sleep 9999").Create(context.Background(), Container{Image: "box"}, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no answer in") {
		t.Errorf("got %v, want an error about a missing answer", err)
	}
}
