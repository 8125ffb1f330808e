package cgroup

import (
	"os"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestSwapV1: swapV1 has the same result as moveV1, or changes nothing, with and without cached open files.
func TestSwapV1(t *testing.T) {
	for name, limit := range map[string]int{"opened": 0, "cached": 10} {
		t.Run(name, func(t *testing.T) {
			tr := tree(t)
			keepOpen(tr, limit)
			testSwapV1(t, tr)
		})
	}
}

func testSwapV1(t *testing.T, tr *Tree) {
	if tr.cpuset.v2 {
		t.Skip("cpuset is on v2 here")
	}
	a, b := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	dir := g.dir(tr.cpuset)
	swap := func(what string, next cpuset.Set, want bool) {
		t.Helper()
		before, err := tr.readSet(dir, cpusFile)
		must(t, err)
		after := before
		if want {
			after = next
		}
		if done := tr.swapV1(dir, next); done != want {
			t.Errorf("%s: done %t, want %t", what, done, want)
		}
		if has, err := tr.readSet(dir, cpusFile); err != nil || has != after {
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
	nestedHas := func(what string, want cpuset.Set) {
		t.Helper()
		if has, err := tr.readSet(nested, cpusFile); err != nil || has != want {
			t.Errorf("%s: the nested group has %v, %v; want %v", what, has, err, want)
		}
	}
	swap("less than a nested group has", a, false)
	nestedHas("less than it has", a.Union(b))
	must(t, tr.writeSet(nested, cpusFile, a))
	swap("less, but what a nested group has", a, true)
	nestedHas("what it has", a)
	swap("more than a nested group has, which has all", a.Union(b), false)
	must(t, os.Remove(nested))
	swap("more, and no nested group any more", a.Union(b), true)
	must(t, g.End())
	must(t, g.Remove())
	if tr.swapV1(dir, a) {
		t.Error("done in a group that is no more")
	}
	_, pid = group(t, tr, "web", Settings{CPUs: a}, "sleep")
	swap("a group of the same name", b, true)
	unset := dir + "/unset" // a group without processes to return
	must(t, os.Mkdir(unset, 0o755))
	if tr.swapV1(unset, b) {
		t.Error("done in a group that has no CPUs as yet")
	}
	must(t, os.Remove(unset))
	if tr.swapV1(tr.Group("missing").dir(tr.cpuset), a) {
		t.Error("done in a group that is not there")
	}
}

// TestSetForeignCPUs: a group of an engine keeps its memory nodes, and gets its CPUs with one write or in steps.
func TestSetForeignCPUs(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	foreign := tr.EngineGroup("web", g.dir(tr.cpuset)[len(tr.cpuset.mount):])
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
