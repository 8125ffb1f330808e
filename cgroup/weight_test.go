package cgroup

import (
	"os"
	"testing"
)

// TestWeightReadAndWritten: a weight that was read is written back unchanged; rounding twice would change it.
func TestWeightReadAndWritten(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	step := int64(1)
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		step = 11 // emulated CPUs are slow
	}
	for kernel := int64(2); kernel < 3000; kernel += step {
		must(t, tr.cpu.writeWeight(g.dir(tr.cpu), kernel))
		s, err := g.Settings()
		must(t, err)
		must(t, g.Apply(s))
		now, err := tr.cpu.readCPU(g.dir(tr.cpu))
		must(t, err)
		if now.weight != kernel {
			t.Errorf("weight %d of the kernel's became %d", kernel, now.weight)
		}
	}
}

// TestSameWeight: two weights are the same if and only if the kernel rounds them to the same value.
func TestSameWeight(t *testing.T) {
	v1, v2 := &Tree{cpu: &hierarchy{}}, &Tree{cpu: &hierarchy{v2: true}}
	for _, c := range []struct {
		a, b   int
		v1, v2 bool
	}{
		{1000, 1000, true, true}, {1000, 0, true, true}, {1234, 1230, false, true}, {1000, 1004, false, true},
		{1000, 1005, false, false}, {10, 14, false, true}, {10, 15, false, false}, {1, 2, true, true}, {500, 1000, false, false},
	} {
		if got := v1.SameWeight(c.a, c.b); got != c.v1 {
			t.Errorf("v1: %d and %d: %t", c.a, c.b, got)
		}
		if got := v2.SameWeight(c.a, c.b); got != c.v2 {
			t.Errorf("v2: %d and %d: %t", c.a, c.b, got)
		}
	}
}
