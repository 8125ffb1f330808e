package client

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestFirstLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"docker: Error response from daemon: no such image\nSee 'docker create --help'.\n": "no such image",
		"\nError: no space left\n": "no space left",
		"unknown flag: --x\r\nSee": "unknown flag: --x",
	} {
		if got := FirstLine([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Flags that are the set-up's are not the user's.
func TestCheckFlags(t *testing.T) {
	for line, good := range map[string]bool{
		"":                            true,
		"-v /data:/data --network no": true,
		"--memory 1g":                 true,
		"--cpus 2":                    false,
		"-v /a:/a --cpuset-cpus=0":    false,
		"--cpu-shares=2":              false,
		"--runtime=runc":              false,
		"--cgroup-parent /x":          false,
		"--rm":                        false,
		"--restart always":            false,
		"image":                       false,
	} {
		if err := CheckFlags(strings.Fields(line)); (err == nil) != good || err != nil && !errors.Is(err, ErrBadEngine) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]string{
		"":       "no docker, nor podman, nor nerdctl in the PATH",
		"podman": "no podman in the PATH",
		"lxc":    "want one of docker, podman, nerdctl",
	} {
		if _, err := Find(context.Background(), name); !errors.Is(err, ErrBadEngine) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
