package main

import (
	"strings"
	"testing"
)

// TestIsolateBadInput: bad input is refused before a program runs, with an error of a single line and exit
// code 2.
func TestIsolateBadInput(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"now"}, "the command takes no arguments"},
		{[]string{"--cases", "huddled"}, "--cases: bad setup: case \"huddled\": must be one of together, groups"},
		{[]string{"--cases", "quota,quota"}, "case quota: duplicate"},
		{[]string{"--stressors", "gpu"}, "--stressors: bad stressor \"gpu\": must be one of cpu, ram"},
		{[]string{"--stressors", ""}, "bad stressor"},
		{[]string{"--app", "steering"}, "--app \"steering\": must be NAME=COMMAND, or one of perception, planning"},
		{[]string{"--app", "=true"}, "must be NAME=COMMAND"},
		{[]string{"--app", "x="}, "no command"},
		{[]string{"--app", "x=true", "--app", "x=false"}, "application x: duplicate"},
		{[]string{"-n", "1"}, "must be 2 or more"},
		{[]string{"--cpu", "0.001"}, "must be 10m to"},
		{[]string{"--timeout", "0s"}, "timeout"},
		{[]string{"--out", "/dev/null/x"}, "--out"},
	} {
		code, out, errOut := command(t, "", append([]string{"isolate"}, test.args...)...)
		if code != 2 || out != "" || !strings.Contains(errOut, test.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q; want 2, one line with %q", test.args, code, errOut, test.want)
		}
	}
	if code, _, errOut := command(t, "", "isolate", "--app", "x=no-such-command"); code != 127 || !strings.Contains(errOut, "not found") {
		t.Errorf("no such command: exit code %d, %q; want 127, as candor run", code, errOut)
	}
	t.Setenv("PATH", t.TempDir())
	if code, _, errOut := command(t, "", "isolate", "--stressors", "network"); code != 2 || !strings.Contains(errOut, "install the package iperf3") {
		t.Errorf("no iperf3: exit code %d, %q; want 2 and the package", code, errOut)
	}
}

// TestInternalApp: a built-in application runs, and an unknown name is refused.
func TestInternalApp(t *testing.T) {
	if code, out, errOut := command(t, "", appCommand, "prediction"); code != 0 || strings.TrimSpace(out) == "" {
		t.Errorf("%d, %q, %s", code, out, errOut)
	}
	if code, _, errOut := command(t, "", appCommand, "steering"); code != 2 || !strings.Contains(errOut, "must be one of perception") {
		t.Errorf("%d, %s", code, errOut)
	}
}
