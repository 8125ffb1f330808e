package hybrid

import (
	"fmt"
	"iter"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/topology"
)

// A Node is the CPUs of one machine and who holds them. There may be thousands of twins, so it is small: what
// planning takes for a while is in the scratch, and what each operation needs comes first, in few cache lines.
type Node struct {
	*layout
	*scratch // twins share it

	slots       []slot
	firstEmpty  int32 // slot; -1: none
	sharedCount int32
	confined    int32  // flexible containers in a domain of their own
	version     uint64 // counts what was committed

	sensitive  Milli  // sum of the sensitive limits
	flexible   demand // of all flexible containers
	sharedTime Milli
	tally      tally // sums over the fractional CPUs

	// The pools: each usable CPU is in exactly one.
	shared, fractional, exclusive cpuset.Compact
	wholeCores                    cpuset.Compact // the shared CPUs whose core is shared as a whole

	order        []int32     // the slots in order of arrival
	load         []cpuLoad   // by CPU id
	inL3, inNUMA []poolCount // of each domain
	demands      []demand    // of flexible containers by domain; nil: none had one yet
	byID         map[string]int32
}

// cpuLoad is the sensitive time on one CPU.
type cpuLoad struct {
	milli   int16 // see used
	sharers int16 // sensitive grants that have a part of it
	closed  bool  // the core belongs to one whole-cores grant: nobody else joins
}

// used is the sensitive time.
func (c *cpuLoad) used() Milli { return Milli(c.milli) }

// room is the time that is left on a CPU.
func (c *cpuLoad) room() Milli {
	if c.closed {
		return 0
	}
	return 1000 - Milli(c.milli)
}

// A poolCount is how many shared CPUs a domain has, and how many of those are in wholeCores.
type poolCount struct {
	free, whole int16
}

// NewNode returns a node without containers. Usable are the machine's online
// CPUs that the options do not exclude. It is an error if none are left, or if
// MinShared is more than they have.
func NewNode(machine *topology.Machine, options Options) (*Node, error) {
	if options.Moves == 0 {
		options.Moves = DefaultMoves
	}
	if options.RescueMoves == 0 {
		options.RescueMoves = DefaultRescueMoves
	}
	n := newEmpty(newLayout(machine, &options), new(scratch))
	if n.usable.IsEmpty() {
		return nil, explainNoCPU(machine, &options)
	}
	if m := options.MinShared; m < 0 || m > n.capacity() {
		return nil, fmt.Errorf("min-shared %dm: want 0 to %s, the CPUs that can be given", m, n.capacity())
	}
	return n, nil
}

// explainNoCPU names the setting that takes the last CPU from a node.
func explainNoCPU(machine *topology.Machine, o *Options) error {
	online := machine.Online
	if !o.Usable.IsEmpty() {
		online = online.Intersect(o.Usable)
	}
	rest := online.Minus(o.Reserved)
	switch {
	case online.IsEmpty():
		return fmt.Errorf("no CPU to give: Candor's parent cgroup has %s, and online are %s", cputext.CPUs(o.Usable), cputext.CPUs(machine.Online))
	case rest.IsEmpty():
		return fmt.Errorf("no CPU to give: %s reserved, and the machine has no other CPUs; reserve fewer", isOrAre(online))
	case o.Reserved.Overlaps(&online):
		return fmt.Errorf("no CPU to give: isolcpus isolates %s, and %s reserved; boot with fewer isolated CPUs, reserve fewer, or set useIsolated",
			cputext.CPUs(rest), isOrAre(o.Reserved.Intersect(online)))
	default:
		return fmt.Errorf("no CPU to give: isolcpus isolates %s, and the machine has no other CPUs; boot with fewer isolated CPUs, or set useIsolated", cputext.CPUs(rest))
	}
}

// isOrAre returns a subject with its verb: "CPU 3 is", "CPUs 0-3 are".
func isOrAre(s cpuset.Set) string {
	if s.Count() == 1 {
		return cputext.CPUs(s) + " is"
	}
	return cputext.CPUs(s) + " are"
}

// capacity is the CPU time of the usable CPUs.
func (n *Node) capacity() Milli { return n.total }

// Pools of a node. Each usable CPU is in exactly one.
type Pools struct {
	Exclusive, Fractional, Shared cpuset.Set
}

// Pools returns which CPUs are exclusive, fractional and shared.
func (n *Node) Pools() Pools { return Pools{n.exclusive.Set(), n.fractional.Set(), n.shared.Set()} }

// Usable returns the CPUs that the node gives to containers.
func (n *Node) Usable() cpuset.Set { return n.usable }

// Machine returns the machine that the node is on.
func (n *Node) Machine() *topology.Machine { return n.machine }

// Shared returns the shared time: the time of sensitive containers on CPUs that
// are in more than one container's cpuset.
func (n *Node) Shared() Milli { return n.sharedTime }

// Sensitive returns the sum of the sensitive containers' limits.
func (n *Node) Sensitive() Milli { return n.sensitive }

// Guaranteed returns the sum of the flexible containers' guarantees.
func (n *Node) Guaranteed() Milli { return n.flexible.need }

// FlexibleCPUs returns the CPUs that a flexible container without a wish runs on.
func (n *Node) FlexibleCPUs() cpuset.Set {
	set, _ := n.flexibleSet()
	return set
}

// Grant returns what a container holds, and whether it holds anything.
func (n *Node) Grant(id string) (Grant, bool) {
	s, ok := n.byID[id]
	if !ok {
		return Grant{}, false
	}
	set := n.FlexibleCPUs()
	return n.grantOf(s, &set), true
}

// grantOf returns what a slot holds, in memory of its own.
func (n *Node) grantOf(s int32, flexible *cpuset.Set) (g Grant) {
	n.fillGrant(&g, s, flexible)
	g.Fractions = append([]Fraction(nil), g.Fractions...)
	return g
}

// Grants returns every grant, in order of arrival.
func (n *Node) Grants() []Grant {
	grants := make([]Grant, 0, len(n.order))
	for g := range n.All() {
		grants = append(grants, *g)
		last := &grants[len(grants)-1]
		last.Fractions = append([]Fraction(nil), g.Fractions...)
	}
	return grants
}

// All yields every grant, in order of arrival, without copying it: a grant and its fractions are good until the
// next one. The node may not change meanwhile.
func (n *Node) All() iter.Seq[*Grant] {
	return func(yield func(*Grant) bool) {
		var g Grant
		set, scratch := n.FlexibleCPUs(), len(n.scratch.fractions)
		for _, s := range n.order {
			n.fillGrant(&g, s, &set)
			n.scratch.fractions = n.scratch.fractions[:scratch]
			if !yield(&g) {
				return
			}
		}
	}
}

// A smallNode is a node on a small machine, of one domain, and the memory that it needs at first: in one piece,
// since thousands of nodes are more memory than caches hold and a page table knows at once.
type smallNode struct {
	Node
	load   [smallCPUs]cpuLoad
	counts [2]poolCount
	rungs  [3 * smallCPUs]int16
	order  [30]int32
	_      [56]byte // with the word that Go's allocator puts before such an object, each slot is a cache line
	slots  [smallSlots]slot
}

const (
	smallCPUs  = 16
	smallSlots = 16
)

// newEmpty returns a node without containers.
func newEmpty(l *layout, s *scratch) (n *Node) {
	if cpus := len(l.cpus); cpus <= smallCPUs && len(l.l3s)+len(l.numas) <= 2 {
		small := new(smallNode)
		n = &small.Node
		n.load, n.tally, n.order = small.load[:cpus], newTally(small.rungs[:3*cpus]), small.order[:0]
		n.slots = small.slots[:0]
		n.inL3, n.inNUMA = small.counts[:len(l.l3s)], small.counts[len(l.l3s):][:len(l.numas)]
	} else {
		n = &Node{load: make([]cpuLoad, cpus), tally: newTally(make([]int16, 3*cpus))}
		n.inL3, n.inNUMA = make([]poolCount, len(l.l3s)), make([]poolCount, len(l.numas))
	}
	n.layout, n.scratch, n.firstEmpty = l, s, -1
	n.shared.Assign(&l.usable)
	n.wholeCores.Assign(&l.usable)
	n.sharedCount = int32(n.shared.Count())
	n.countFree()
	return n
}

// countFree counts the shared CPUs of each domain while all are shared.
func (n *Node) countFree() {
	for i := range n.l3s {
		count := int16(n.l3s[i].Count())
		n.inL3[i] = poolCount{count, count}
	}
	for i := range n.numas {
		count := int16(n.numas[i].Count())
		n.inNUMA[i] = poolCount{count, count}
	}
}
