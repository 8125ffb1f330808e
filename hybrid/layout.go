package hybrid

import (
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// A layout is what never changes about a node: which usable CPU is in which
// core, L3 domain and NUMA node. An L3 domain that spans NUMA nodes (sub-NUMA
// clustering) counts as one domain in each: memory is farther than cache. Where the
// kernel tells no L3, a domain is a socket's part of a NUMA node.
type layout struct {
	machine *topology.Machine
	usable  cpuset.Set
	cpus    []place // by CPU id
	cores   []cpuset.Set
	l3s     []cpuset.Set
	numas   []cpuset.Set
	l3Node  []int // the NUMA node of each L3 domain
	threads int   // most usable CPUs on a core
	least   int   // fewest usable CPUs on a core that has any

	siblings [][]int16 // the usable CPUs of each core, as a list
	total    Milli     // CPU time of the usable CPUs
}

// A place is where a CPU is, as indexes into the layout.
type place struct {
	core, l3, numa int16
}

func newLayout(machine *topology.Machine, o *Options) *layout {
	l := &layout{
		machine: machine,
		usable:  machine.Online.Minus(o.Reserved),
		cores:   make([]cpuset.Set, len(machine.Cores)),
		numas:   make([]cpuset.Set, len(machine.Nodes)),
	}
	if !o.Usable.IsEmpty() {
		l.usable = l.usable.Intersect(o.Usable)
	}
	if !o.UseIsolated {
		l.usable = l.usable.Minus(machine.Isolated)
	}
	pieces := make(map[[3]int]int)
	l.cpus = make([]place, machine.Online.Last()+1)
	for cpu := l.usable.First(); cpu >= 0; cpu = l.usable.Next(cpu + 1) {
		c := machine.CPU(cpu)
		l3 := l.l3Of(c, pieces)
		l.cpus[cpu] = place{int16(c.Core), int16(l3), int16(c.Node)}
		l.cores[c.Core].Add(cpu)
		l.l3s[l3].Add(cpu)
		l.numas[c.Node].Add(cpu)
	}
	l.siblings = make([][]int16, len(l.cores))
	for i := range l.cores {
		for cpu := range l.cores[i].All() {
			l.siblings[i] = append(l.siblings[i], int16(cpu))
		}
		size := len(l.siblings[i])
		l.threads = max(l.threads, size)
		if size > 0 && (l.least == 0 || size < l.least) {
			l.least = size
		}
	}
	l.total = Milli(l.usable.Count()) * 1000
	return l
}

// l3Of returns the index of the part of an L3 domain that a CPU is in; pieces
// finds it by L3 domain, NUMA node and socket.
func (l *layout) l3Of(c *topology.CPU, pieces map[[3]int]int) int {
	key := [3]int{c.L3, c.Node, c.Socket}
	i, ok := pieces[key]
	if !ok {
		i = len(l.l3s)
		pieces[key] = i
		l.l3s = append(l.l3s, cpuset.Set{})
		l.l3Node = append(l.l3Node, c.Node)
	}
	return i
}
