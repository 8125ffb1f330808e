package hybrid

import (
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// A layout is the immutable part of a node: its options, and the core, L3 domain and NUMA node of each
// usable CPU.
//
// The L3 domains of a layout can be parts of the machine's L3 domains:
//
//   - An L3 domain that spans NUMA nodes (sub-NUMA clustering) counts as a domain in each NUMA node, because access
//     to the memory of another node costs more than access to a cache from another node.
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
	l3Node     []int        // the NUMA node of each L3 domain
	kinds      []cpuset.Set // usable CPUs of each kind of cores, the fastest first; nil if they are of one kind
	threads    []int        // maximum number of usable CPUs on a core of each kind; empty if kinds is nil
	slowL3     []bool       // by L3 domain: whether other domains with CPUs of the same kind are faster
	partial    cpuset.Set   // usable CPUs of cores with a CPU that is offline or not usable
	maxThreads int          // maximum number of usable CPUs on a core
	minThreads int          // minimum number of usable CPUs on a core that has usable CPUs

	domains  []flexibleDomain
	siblings [][]int16 // the usable CPUs of each core, as a list
	total    Milli     // CPU time of the usable CPUs
}

// A location holds the core, L3 domain, NUMA node and kind of a CPU, as indexes into the layout.
type location struct {
	core, l3, numa, kind int16
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
	l.cpus = make([]location, machine.Online.Last()+1)
	for cpu := l.usable.First(); cpu >= 0; cpu = l.usable.Next(cpu + 1) {
		c := machine.CPU(cpu)
		l3 := l.l3Of(l3Part{c.L3, c.Node, c.Socket, machine.KindOf(cpu)}, pieces)
		l.cpus[cpu] = location{core: int16(c.Core), l3: int16(l3), numa: int16(c.Node)}
		l.cores[c.Core].Add(cpu)
		l.l3s[l3].Add(cpu)
		l.numas[c.Node].Add(cpu)
	}
	l.addKinds()
	l.addSlowL3s()
	l.addCores()
	l.domains = newFlexibleDomains(l)
	l.total = Milli(l.usable.Count()) * 1000
	return l
}

// addCores adds the usable CPUs of each core, and finds the partial cores.
func (l *layout) addCores() {
	partial := l.machine.PartialCores()
	l.siblings = make([][]int16, len(l.cores))
	for i := range l.cores {
		if l.cores[i] != l.machine.Cores[i].CPUs || partial.Overlaps(&l.cores[i]) {
			l.partial.AddAll(&l.cores[i])
		}
		for cpu := range l.cores[i].All() {
			l.siblings[i] = append(l.siblings[i], int16(cpu))
		}
		size := len(l.siblings[i])
		if size > 0 && l.isHybrid() {
			threads := &l.threads[l.cpus[l.siblings[i][0]].kind]
			*threads = max(*threads, size)
		}
		l.maxThreads = max(l.maxThreads, size)
		if size > 0 && (l.minThreads == 0 || size < l.minThreads) {
			l.minThreads = size
		}
	}
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
