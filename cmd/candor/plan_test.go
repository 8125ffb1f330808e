package main

import (
	"strings"
	"testing"
)

// The operations before a bad line stand: their picture is drawn, and the line is named.
func TestPictureUpToABadLine(t *testing.T) {
	const web = `{"op":"allocate","id":"web","cpu":"1500m"}` + "\n"
	_, want, _ := command(t, web, "plan", "--machine", "core:4", "-o", "svg")
	code, out, errOut := command(t, web+"nonsense\n", "plan", "--machine", "core:4", "-o", "svg")
	if code != 2 || out != want || !strings.HasPrefix(errOut, "candor: standard input: line 2: ") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("code %d, a picture of %d bytes (want %d), %q", code, len(out), len(want), errOut)
	}
}

// A reserved CPU that the machine does not have is a mistake.
func TestReservedCPUIsThere(t *testing.T) {
	code, out, errOut := command(t, "", "plan", "--machine", "core:4", "--reserved", "0,900")
	if want := "candor: --reserved 0,900: the machine does not have CPU 900; want some of 0-3\n"; code != 2 || out != "" || errOut != want {
		t.Errorf("code %d, %q, %q; want %q", code, out, errOut, want)
	}
}

// A refusal explains itself in data too.
func TestExplainRefusal(t *testing.T) {
	code, out, _ := command(t, `{"op":"allocate","id":"web","cpu":"5"}`, "plan", "--machine", "core:4", "-o", "json", "--explain")
	if want := `"explain":[{"kind":"no-time","cpus":"","text":"wants 5 CPUs, 4 of 4 CPUs are left`; code != 0 || !strings.Contains(out, want) {
		t.Errorf("code %d, %s; want %s", code, out, want)
	}
}
