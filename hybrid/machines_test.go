package hybrid_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// A shape is a regular machine: the count of each level in each object of the level above.
type shape struct{ sockets, numa, l3, cores, threads int }

func (s shape) String() string {
	return fmt.Sprintf("pack:%d numa:%d l3:%d core:%d pu:%d", s.sockets, s.numa, s.l3, s.cores, s.threads)
}

// flatMachine returns a machine of n CPUs with a single socket, NUMA node and L3 domain, and one CPU per core.
func flatMachine(n int) *topology.Machine { return shape{1, 1, 1, n, 1}.machine() }

// machine returns the machine. The numbers of the CPUs are as in Linux: first the first threads of all cores, then the second threads.
func (s shape) machine() *topology.Machine {
	m, err := topology.Parse(s.String())
	if err != nil {
		panic(err)
	}
	return m
}

// index fills the domains of a machine from its CPUs.
func index(m *topology.Machine) {
	m.Sockets, m.Nodes, m.L3s, m.Cores = nil, nil, nil, nil
	grow := func(n int, add func()) {
		for ; n >= 0; n-- {
			add()
		}
	}
	for _, c := range m.CPUs {
		if !c.Online {
			continue
		}
		grow(c.Socket-len(m.Sockets), func() { m.Sockets = append(m.Sockets, topology.Socket{ID: len(m.Sockets)}) })
		grow(c.Node-len(m.Nodes), func() { m.Nodes = append(m.Nodes, topology.NUMANode{ID: len(m.Nodes)}) })
		grow(c.L3-len(m.L3s), func() { m.L3s = append(m.L3s, topology.Domain{ID: len(m.L3s)}) })
		grow(c.Core-len(m.Cores), func() { m.Cores = append(m.Cores, topology.Domain{ID: len(m.Cores)}) })
		m.Sockets[c.Socket].CPUs.Add(c.ID)
		m.Nodes[c.Node].CPUs.Add(c.ID)
		m.L3s[c.L3].CPUs.Add(c.ID)
		m.Cores[c.Core].CPUs.Add(c.ID)
	}
	for i := range m.Nodes {
		m.Nodes[i].Distances = make([]int, len(m.Nodes))
		for j := range m.Nodes {
			m.Nodes[i].Distances[j] = 20
		}
		m.Nodes[i].Distances[i] = 10
	}
}

// withoutThreads takes the second threads of some cores offline. No domain becomes empty.
func withoutThreads(m *topology.Machine, cpus cpuset.Set) {
	for cpu := range cpus.All() {
		c := &m.CPUs[cpu]
		c.Online, c.Socket, c.Node, c.L3, c.Core = false, -1, -1, -1, -1
		m.Online.Remove(cpu)
		m.Offline.Add(cpu)
	}
	index(m)
}

// drawMachine draws a machine of at most 64 CPUs, and sometimes of 66 or 80, because a cpuset.Compact stores ids above 63 separately. Some
// machines have offline or isolated CPUs.
func drawMachine(t *rapid.T) *topology.Machine {
	s := shape{
		sockets: rapid.IntRange(1, 2).Draw(t, "sockets"),
		numa:    rapid.IntRange(1, 2).Draw(t, "numa"),
		l3:      rapid.IntRange(1, 2).Draw(t, "l3"),
		cores:   rapid.IntRange(1, 8).Draw(t, "cores"),
		threads: rapid.IntRange(1, 2).Draw(t, "threads"),
	}
	for s.sockets*s.numa*s.l3*s.cores*s.threads > 64 {
		s.cores /= 2
	}
	if rapid.IntRange(0, 11).Draw(t, "above 63") == 0 {
		s = rapid.SampledFrom([]shape{{1, 1, 1, 66, 1}, {2, 1, 2, 10, 2}}).Draw(t, "shape")
	}
	m := s.machine()
	cores := len(m.Cores)
	if s.threads == 2 && rapid.IntRange(0, 9).Draw(t, "offline") == 0 {
		second := drawSubset(t, "offline CPUs", cpuset.Range(cores, 2*cores-1), 4)
		withoutThreads(m, second)
	}
	if rapid.IntRange(0, 9).Draw(t, "isolated") == 0 {
		m.Isolated = drawSubset(t, "isolated CPUs", m.Online.Minus(m.Online.Lowest(1)), 4)
	}
	return m
}

// drawSubset draws at most n CPUs of a set.
func drawSubset(t *rapid.T, label string, of cpuset.Set, n int) cpuset.Set {
	cpus := of.Slice()
	if len(cpus) == 0 {
		return cpuset.Set{}
	}
	return cpuset.Of(rapid.SliceOfNDistinct(rapid.SampledFrom(cpus), 0, min(n, len(cpus)), rapid.ID[int]).Draw(t, label)...)
}
