package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// A layout is the immutable part of a node: its options, and the core, L3 domain and NUMA node of each
// usable CPU.
//
// Some L3 domains of the machine are split here:
//
//   - An L3 domain that spans NUMA nodes (sub-NUMA clustering) counts as a domain in each node, since
//     remote memory costs more than a remote cache.
//   - An L3 domain with several kinds of CPUs (performance and efficiency cores) counts as a domain
//     for each kind: threads of a program that run at different speeds wait for each other.
//   - Where the kernel reports no L3, a domain is the intersection of a socket and a NUMA node.
type layout struct {
	machine    *topology.Machine
	options    Options
	usable     cpuset.Set
	cpus       []location // by CPU id
	cores      []cpuset.Set
	l3s        []cpuset.Set
	numas      []cpuset.Set
	l3Node     []int // the NUMA node of each L3 domain
	maxThreads int   // maximum of usable CPUs on a core
	minThreads int   // minimum of usable CPUs on a core that has usable CPUs

	domains  []flexibleDomain
	siblings [][]int16 // the usable CPUs of each core, as a list
	total    Milli     // CPU time of the usable CPUs
}

// A location locates a CPU by indexes into the layout.
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

// A l3Part identifies the part of an L3 domain that counts as a domain.
type l3Part struct {
	l3, node, socket, kind int
}

// l3Of returns the index of a piece in l.l3s and adds it if needed.
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

// kindsOf returns a function that numbers the kinds of CPUs of a machine. The kernel does not name
// them. CPUs of a kind have nearly the same capacity or, if the kernel does not report it, nearly the
// same maximum frequency. Favored cores of a kind differ by a few percent; efficiency cores have at
// most three quarters of the capacity of performance cores.
func kindsOf(machine *topology.Machine) func(*topology.CPU) int {
	var speeds []int
	for i := range machine.CPUs {
		if c := &machine.CPUs[i]; c.Online {
			speeds = append(speeds, speed(c))
		}
	}
	slices.Sort(speeds)
	var bounds []int // the slowest CPU of each kind except the first
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

// speed returns the value that distinguishes the kinds of CPUs; 0 if the kernel reports none.
func speed(c *topology.CPU) int {
	if c.Capacity > 0 {
		return c.Capacity
	}
	return c.MaxKHz
}
