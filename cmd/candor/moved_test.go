package main

import (
	"strings"
	"testing"
)

// TestMovedFlags: the flags for clusters are refused with the name of the new command, and the help does not have them.
func TestMovedFlags(t *testing.T) {
	for line, want := range map[string]string{
		"map --cluster":                 `candor map: --cluster "true": must not be set; use kubectl candor map (docs/kubectl.md)`,
		"map --node one --cluster":      `candor map: --node "one": must not be set; use kubectl candor map`,
		"plan --cluster --cpu 1.5":      `candor plan: --cluster "true": must not be set; use kubectl candor plan`,
		"plan -f pod.yaml --cluster":    `candor plan: --filename "pod.yaml": must not be set; use kubectl candor plan`,
		"plan --cpu 1.5 -n shop -o svg": `candor plan: --cpu "1.5": must not be set; use kubectl candor plan`,
	} {
		refusesLine(t, want, strings.Fields(line)...)
	}
	for _, name := range []string{"map", "plan"} {
		if _, out, _ := command(t, "", name, "--help"); strings.Contains(out, "--cluster") || !strings.Contains(out, "kubectl candor "+name) {
			t.Errorf("candor %s --help:\n%s", name, out)
		}
	}
}
