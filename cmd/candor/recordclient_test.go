package main

import (
	"strings"
	"testing"
	"time"
)

func TestStarterIn(t *testing.T) {
	for command, want := range map[string]string{
		"docker run debian nproc":                    "docker run",
		"docker -H tcp://host run debian":            "docker run",
		"docker ps":                                  "",
		"/usr/bin/podman run x":                      "podman run",
		"env A=b timeout 10 candor run --cpu 1 -- x": "candor run",
		"sudo docker compose up":                     "docker compose",
		"systemd-run -p CPUQuota=50% x":              "systemd-run",
		"make -j4":                                   "",
		"candor record -o x -- make":                 "",
		"nice":                                       "",
		"timeout":                                    "",
	} {
		if got := starterIn(strings.Fields(command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := starterIn([]string{"sh", "-c", "docker run x | tee log"}); got != "docker run" {
		t.Errorf("in a script: %q", got)
	}
	if got := starterIn(nil); got != "" {
		t.Errorf("without a command: %q", got)
	}
}

func TestWarnEmpty(t *testing.T) {
	for _, c := range []struct {
		used, took time.Duration
		want       bool
	}{
		{0, 10 * time.Millisecond, false}, // too short for a judgment
		{5 * time.Millisecond, 2 * time.Second, true},
		{50 * time.Millisecond, 2 * time.Second, false},
	} {
		var out strings.Builder
		warnEmpty(&out, c.used, c.took, "x.usage")
		if got := strings.Contains(out.String(), "record -o x.usage --container NAME"); got != c.want {
			t.Errorf("%+v: %q", c, out.String())
		}
	}
}

// TestNarrowProgressLine: the bar and the remaining time are at the start of the line, where a narrow terminal does not cut them.
func TestNarrowProgressLine(t *testing.T) {
	s := stage{parts: "3 of 10 points", text: strings.Repeat("long ", 20), share: 0.5}
	if got, want := shorten(s.line(10*time.Second), 60), "[############------------] 10s left, 3 of 10 points, long l…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
