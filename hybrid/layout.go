package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// A layout is the immutable part of a node: its options, and the core, L3 domain and NUMA node of each
// usable CPU.
//
// The L3 domains of a layout can be parts of the machine's L3 domains:
//
//   - An L3 domain that spans NUMA nodes (sub-NUMA clustering) counts as a domain in each NUMA node,
//     because remote memory costs more than a remote cache.
//   - An L3 domain with several kinds of CPUs (performance and efficiency cores) counts as a domain
//     for each kind, because the threads of a program would run at different speeds and wait for each other.
//   - If the kernel reports no L3 caches, an L3 domain is the intersection of a socket and a NUMA node.
type layout struct {
	machine    *topology.Machine
	options    Options
	usable     cpuset.Set
	cpus       []location // by CPU id
	cores      []cpuset.Set
	l3s        []cpuset.Set
	numas      []cpuset.Set
	l3Node     []int // the NUMA node of each L3 domain
	maxThreads int   // maximum number of usable CPUs on a core
	minThreads int   // minimum number of usable CPUs on a core that has usable CPUs

	domains  []flexibleDomain
	siblings [][]int16 // the usable CPUs of each core, as a list
	total    Milli     // CPU time of the usable CPUs
}

// A location holds the core, L3 domain and NUMA node of a CPU, as indexes into the layout.
type location struct {
	core, l3, numa int16
}

func newLayout(machine *topology.Machine, o *Options) *layout {
	l := &layout{
		machine: machine,
		options: *o,
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
	pieces := make(map[l3Part]int)
	kind := kindsOf(machine)
	l.cpus = make([]location, machine.Online.Last()+1)
	for cpu := l.usable.First(); cpu >= 0; cpu = l.usable.Next(cpu + 1) {
		c := machine.CPU(cpu)
		l3 := l.l3Of(l3Part{c.L3, c.Node, c.Socket, kind(c)}, pieces)
		l.cpus[cpu] = location{int16(c.Core), int16(l3), int16(c.Node)}
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
		l.maxThreads = max(l.maxThreads, size)
		if size > 0 && (l.minThreads == 0 || size < l.minThreads) {
			l.minThreads = size
		}
	}
	l.domains = newFlexibleDomains(l)
	l.total = Milli(l.usable.Count()) * 1000
	return l
}

// An l3Part identifies a part of a machine's L3 domain that is an L3 domain of the layout.
type l3Part struct {
	l3, node, socket, kind int
}

// l3Of returns the index of a part in l.l3s, and adds the part if necessary.
func (l *layout) l3Of(p l3Part, pieces map[l3Part]int) int {
	i, ok := pieces[p]
	if !ok {
		i = len(l.l3s)
		pieces[p] = i
		l.l3s = append(l.l3s, cpuset.Set{})
		l.l3Node = append(l.l3Node, p.node)
	}
	return i
}

// kindsOf returns a function that returns the kind of a CPU as a number. The kernel does not report kinds, so
// kindsOf derives them: CPUs of a kind have nearly the same capacity or, if the kernel does not report
// capacities, nearly the same maximum frequency. Favored cores differ from other cores of their kind by a few
// percent. Efficiency cores have at most three quarters of the capacity of performance cores.
func kindsOf(machine *topology.Machine) func(*topology.CPU) int {
	var speeds []int
	for i := range machine.CPUs {
		if c := &machine.CPUs[i]; c.Online {
			speeds = append(speeds, speed(c))
		}
	}
	slices.Sort(speeds)
	var bounds []int // the speed of the slowest CPU of each kind except the slowest kind
	for i := 1; i < len(speeds); i++ {
		if speeds[i-1]*5 < speeds[i]*4 {
			bounds = append(bounds, speeds[i])
		}
	}
	return func(c *topology.CPU) int {
		kind, found := slices.BinarySearch(bounds, speed(c))
		if found {
			kind++
		}
		return kind
	}
}

// speed returns the capacity or the maximum frequency of a CPU; 0 if the kernel reports neither.
func speed(c *topology.CPU) int {
	if c.Capacity > 0 {
		return c.Capacity
	}
	return c.MaxKHz
}
