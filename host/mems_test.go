package host

import (
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

func TestMemsOf(t *testing.T) {
	machine := func(memory ...[]int) *topology.Machine { // CPUs 0-1, 2-3, 4-5, 6-7
		m, err := topology.Parse("pack:2 numa:2 core:2")
		if err != nil {
			t.Fatal(err)
		}
		for i := range memory {
			m.Nodes[i].Memory = memory[i]
		}
		return m
	}
	full := machine()
	bare := machine([]int{0, 2}, []int{0, 2}, []int{2, 0}, []int{2, 0}) // nodes 1 and 3 have no memory
	far := machine([]int{0, 9}, []int{9, 0}, []int{9, 0}, []int{0, 9})  // node 9 has memory and no CPUs
	for _, tt := range []struct {
		name                string
		m                   *topology.Machine
		cpus, allowed, want string
	}{
		{"own memory", full, "2", "0-3", "1"},
		{"own memory of two nodes", full, "1-2", "0-3", "0-1"},
		{"the group above has only some nodes", full, "2-3", "0,2", "0"},
		{"nearest first", full, "4", "0,3", "3"},
		{"equally near", full, "2-3", "2-3", "2"},
		{"no memory", bare, "2-3", "0,2", "0"},
		{"no memory, on the other socket", bare, "7", "0,2", "2"},
		{"no memory, and the nearest is not allowed", bare, "7", "0", "0"},
		{"two nodes with the same nearest", bare, "0,2", "0,2", "0"},
		{"memory since the topology was read", bare, "2-3", "0-1", "1"},
		{"only memory that the topology does not know", bare, "2-3", "7-8", "7-8"},
		{"memory without CPUs is nearest", far, "2-5", "0,9", "9"},
		{"all CPUs", far, "0-7", "0,9", "0,9"},
	} {
		cpus, allowed := cpuset.MustParse(tt.cpus), cpuset.MustParse(tt.allowed)
		if got := memsOf(tt.m, &cpus, &allowed); got.String() != tt.want {
			t.Errorf("%s: CPUs %s, allowed %s: memory nodes %v, want %s", tt.name, tt.cpus, tt.allowed, got, tt.want)
		}
	}
}

// In a pod whose cpuset has the memory of a single node, a container on the CPUs of another node gets that memory, in
// its runtime's settings and in the kernel.
func TestMemsWithinPod(t *testing.T) {
	l := newLab(t)
	m, err := topology.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Nodes) < 2 || m.Nodes[0].CPUs.Count() < 2 || !m.Nodes[0].HasMemory() {
		t.Skip("needs two NUMA nodes with two CPUs each")
	}
	e := newEngine(l)
	pause := e.ask(flexible("pause", "0"), "pause")
	g, err := l.Admit(ctx, pause, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run("pause", settingsOf(g)) // and the pod's group
	first := cpuset.Of(m.Nodes[0].ID)
	e.confinePod(t, first)

	size := hybrid.Milli(1000 * m.Nodes[0].CPUs.Count()).String()
	onNode := func(name string) (*Grant, cpuset.Set) {
		a := e.ask(ask(name, size), name)
		a.Topology, a.Mems = hybrid.SingleNUMA, true
		g, err := l.Admit(ctx, a, 0)
		if err != nil {
			t.Fatal(err)
		}
		mems, err := l.Mems(g)
		if err != nil {
			t.Fatal(err)
		}
		return g, mems
	}
	onNode("a")
	b, mems := onNode("b")
	if b.CPUs != m.Nodes[1].CPUs || mems != first {
		t.Fatalf("on CPUs %v memory of nodes %v; want that of node %v", b.CPUs, mems, first)
	}
	has := settingsOf(b)
	has.Mems = mems
	e.run("b", has)
	l.nudge()
	if now, err := e.tree.Group("b").Settings(); err != nil || now.Mems != first || now.CPUs != b.CPUs {
		t.Errorf("b has %+v, %v", now, err)
	}
}

// confinePod gives the same memory nodes to the pod's group and to the containers in it.
func (e *engine) confinePod(t *testing.T, mems cpuset.Set) {
	t.Helper()
	above, err := cgroup.Open(cgroup.Options{Parent: e.base, Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	pod := above.Group("pod1")
	has, err := pod.Settings()
	if err == nil {
		err = pod.SetCPUs(has.CPUs, mems)
	}
	if err != nil {
		t.Fatal(err)
	}
}
