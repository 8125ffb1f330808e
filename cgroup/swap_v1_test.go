package cgroup

import (
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// What swapV1 does, it does as moveV1; what it leaves to that is as it was.
func TestSwapV1(t *testing.T) {
	tr := tree(t)
	if tr.cpuset.v2 {
		t.Skip("cpuset is on v2 here")
	}
	a, b := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	dir := g.dir(tr.cpuset)
	swap := func(what string, next cpuset.Set, want bool) {
		t.Helper()
		before, err := readSet(dir, cpusFile)
		must(t, err)
		after := before
		if want {
			after = next
		}
		if done := swapV1(dir, cpusFile, next); done != want {
			t.Errorf("%s: done %t, want %t", what, done, want)
		}
		if has, err := readSet(dir, cpusFile); err != nil || has != after {
			t.Errorf("%s: has %v, %v; want %v", what, has, err, after)
		}
		if got := affinity(t, pid); got != after {
			t.Errorf("%s: the process may run on %v, want %v", what, got, after)
		}
	}
	swap("other CPUs", b, true)
	swap("the same", b, true)
	swap("more", a.Union(b), true)
	swap("a CPU that is not there", cpuset.Of(cpuset.Max-1), false)
	swap("none", cpuset.Set{}, false)
	nested := nest(t, g, "nested", a.Union(b))
	swap("less than a nested group has", a, false)
	if has, err := readSet(nested, cpusFile); err != nil || has != a.Union(b) {
		t.Errorf("the nested group has %v, %v", has, err)
	}
	if swapV1(tr.Group("nobody").dir(tr.cpuset), cpusFile, a) {
		t.Error("done in a group that is not there")
	}
}

// A group of an engine keeps its memory nodes, and gets its CPUs in one go or in steps.
func TestSetForeignCPUs(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	foreign := tr.Foreign("web", g.dir(tr.cpuset)[len(tr.cpuset.mount):])
	for i, cpus := range []cpuset.Set{b, a.Union(b), a, a} {
		if i == 1 {
			nest(t, g, "nested", b)
		}
		must(t, foreign.SetCPUs(cpus, cpuset.Set{}))
		if got := affinity(t, pid); got != cpus {
			t.Errorf("the process may run on %v, want %v", got, cpus)
		}
	}
}
