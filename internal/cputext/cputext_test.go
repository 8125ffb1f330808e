package cputext

import (
	"testing"

	"github.com/candor-project/candor/cpuset"
)

func TestCPUs(t *testing.T) {
	if got := Mems(cpuset.Of(1)) + ", " + Mems(cpuset.Set{}); got != "memory node 1, no memory nodes" {
		t.Errorf("memory: %q", got)
	}
	for list, want := range map[string]string{"": "no CPUs", "3": "CPU 3", "0-1": "CPUs 0-1", "0,8": "CPUs 0,8"} {
		if got := CPUs(cpuset.MustParse(list)); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 rounds", 1: "1 round", 2: "2 rounds"} {
		if got := Count(n, "round"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
