package hybrid_test

import (
	"fmt"
	"slices"

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
	if rapid.IntRange(0, 3).Draw(t, "hybrid") == 0 {
		drawKinds(t, m)
	}
	if rapid.IntRange(0, 9).Draw(t, "isolated") == 0 {
		m.Isolated = drawSubset(t, "isolated CPUs", m.Online.Minus(m.Online.Lowest(1)), 4)
	}
	return m
}

// drawKinds gives a machine two or three kinds of cores, in any order. Some slow cores have a single CPU.
func drawKinds(t *rapid.T, m *topology.Machine) {
	if len(m.Cores) < 2 {
		return
	}
	count := rapid.IntRange(2, min(3, len(m.Cores))).Draw(t, "kinds")
	kindOf := make([]int, len(m.Cores))
	for i := range kindOf {
		kindOf[i] = rapid.IntRange(0, count-1).Draw(t, "kind")
	}
	for i, kind := range rapid.Permutation([]int{0, 1, 2}[:count]).Draw(t, "first cores") {
		kindOf[i] = kind // so that each kind has a core
	}
	if rapid.Bool().Draw(t, "slow cores without SMT") {
		withoutSMT(m, func(core int) bool { return kindOf[core] > 0 })
	}
	m.Kinds = make([]topology.Kind, count)
	for i := range m.Cores {
		m.Kinds[kindOf[i]].CPUs.AddAll(&m.Cores[i].CPUs)
	}
}

// withoutSMT removes all CPUs except the first of some cores. Unlike offline CPUs, they are not on the machine.
func withoutSMT(m *topology.Machine, isSingle func(core int) bool) {
	m.CPUs = slices.DeleteFunc(slices.Clone(m.CPUs), func(c topology.CPU) bool {
		return c.Online && isSingle(c.Core) && m.Cores[c.Core].CPUs.First() != c.ID
	})
	m.Online = cpuset.Set{}
	for _, c := range m.CPUs {
		if c.Online {
			m.Online.Add(c.ID)
		}
	}
	index(m)
}

// hybridMachine returns a machine with a socket, a NUMA node and an L3 domain. It has P cores of some CPUs and E cores
// of one CPU. The CPUs of a core have consecutive ids; the P cores come first.
func hybridMachine(pCores, threads, eCores int) *topology.Machine {
	m := &topology.Machine{HasL3: true, Kinds: []topology.Kind{{Name: topology.Performance}, {Name: topology.Efficiency}}}
	for core := range pCores + eCores {
		kind, size := 0, threads
		if core >= pCores {
			kind, size = 1, 1
		}
		for range size {
			id := len(m.CPUs)
			m.CPUs = append(m.CPUs, topology.CPU{ID: id, Online: true, Core: core})
			m.Online.Add(id)
			m.Kinds[kind].CPUs.Add(id)
		}
	}
	index(m)
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
