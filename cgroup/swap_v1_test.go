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
	swap := func(step string, next cpuset.Set, want bool) {
		t.Helper()
		before, err := tr.readSet(dir, cpusFile)
		must(t, err)
		after := before
		if want {
			after = next
		}
		if done := tr.swapV1(dir, next); done != want {
			t.Errorf("%s: done %t, want %t", step, done, want)
		}
		if has, err := tr.readSet(dir, cpusFile); err != nil || has != after {
			t.Errorf("%s: has %v, %v; want %v", step, has, err, after)
		}
		if got := affinity(t, pid); got != after {
			t.Errorf("%s: the process may run on %v, want %v", step, got, after)
		}
	}
	swap("other CPUs", b, true)
	swap("the same CPUs", b, true)
	swap("more CPUs", a.Union(b), true)
	swap("a missing CPU", cpuset.Of(cpuset.Max-1), false)
	swap("no CPUs", cpuset.Set{}, false)
	nested := nest(t, g, "nested", a.Union(b))
	nestedHas := func(step string, want cpuset.Set) {
		t.Helper()
		if has, err := tr.readSet(nested, cpusFile); err != nil || has != want {
			t.Errorf("%s: the nested group has %v, %v; want %v", step, has, err, want)
		}
	}
	swap("fewer CPUs than a nested group", a, false)
	nestedHas("fewer CPUs than a nested group", a.Union(b))
	must(t, tr.writeSet(nested, cpusFile, a))
	swap("the CPUs of the nested group", a, true)
	nestedHas("the CPUs of the nested group", a)
	swap("more CPUs, while the nested group has all CPUs of its parent", a.Union(b), false)
	must(t, os.Remove(nested))
	swap("more CPUs, without a nested group", a.Union(b), true)
	must(t, g.End())
	must(t, g.Remove())
	if tr.swapV1(dir, a) {
		t.Error("done in a removed group")
	}
	_, pid = group(t, tr, "web", Settings{CPUs: a}, "sleep")
	swap("a recreated group", b, true)
	unset := dir + "/unset" // a group without CPUs and processes
	must(t, os.Mkdir(unset, 0o755))
	if tr.swapV1(unset, b) {
		t.Error("done in a group without CPUs")
	}
	must(t, os.Remove(unset))
	if tr.swapV1(tr.Group("missing").dir(tr.cpuset), a) {
		t.Error("done in a missing group")
	}
}

// TestSetForeignCPUs: SetCPUs changes the CPUs of an engine's group with a single write, or in steps if a
// nested group requires it.
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
