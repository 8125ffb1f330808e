package hybrid

import (
	"fmt"
	"iter"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/topology"
)

// A Node holds the CPUs of a machine and the containers that they belong to. A process can have thousands of nodes from NewLike, so a Node
// is small: all nodes share the scratch, which holds the data of plans. The fields that every operation uses come first, in few cache
// lines.
type Node struct {
	*layout
	*scratch // shared by all nodes from NewLike

	slots       []slot
	firstEmpty  int32 // first empty slot in the free list; -1: none
	sharedCount int32
	confined    int32  // number of flexible containers that are confined to a domain
	version     uint64 // number of committed changes

	sensitive  Milli  // sum of the sensitive limits
	flexible   demand // number and guarantees of all flexible containers
	sharedTime Milli  // shared time (Node.Shared)
	tally      tally  // sums over the fractional CPUs that are not closed (cpuLoad.isClosed)

	// The pools: each usable CPU is in exactly one of shared, fractional and exclusive.
	shared, fractional, exclusive cpuset.Compact
	wholeCores                    cpuset.Compact // the shared CPUs on cores whose CPUs are all usable and shared

	order        []int32     // slots in order of arrival
	load         []cpuLoad   // by CPU id
	inL3, inNUMA []poolCount // free CPUs of each domain
	demands      []demand    // demands of flexible containers by domain; nil if no container was ever confined
	byID         map[string]int32
}

// A cpuLoad describes the sensitive time on a CPU: the CPU time of sensitive grants.
type cpuLoad struct {
	milli    int16 // sensitive time
	sharers  int16 // number of sensitive grants on the CPU
	isClosed bool  // the core belongs to a whole-cores grant, so no other grant may use the CPU
}

// used returns the sensitive time on the CPU.
func (c *cpuLoad) used() Milli { return Milli(c.milli) }

// room returns the free time on the CPU; 0 on a closed CPU.
func (c *cpuLoad) room() Milli {
	if c.isClosed {
		return 0
	}
	return 1000 - Milli(c.milli)
}

// A poolCount holds the number of shared CPUs of a domain (free), and the number of these CPUs that are in
// Node.wholeCores (whole).
type poolCount struct {
	free, whole int16
}

// NewNode returns an empty node. Its usable CPUs are the machine's online CPUs that the options do not
// exclude. NewNode returns an error if no CPU is usable, or if MinShared exceeds the CPU time of the usable CPUs.
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
		return nil, fmt.Errorf("min-shared %dm: must be 0 to %s, the CPU time of the usable CPUs", m, n.capacity())
	}
	return n, nil
}

// explainNoCPU returns an error that names the settings that exclude all CPUs.
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
		return fmt.Errorf("no CPU to give: %s reserved, and the machine has no other CPUs; reserve fewer", withVerb(online))
	case o.Reserved.Overlaps(&online):
		return fmt.Errorf("no CPU to give: isolcpus isolates %s, and %s reserved; boot with fewer isolated CPUs, reserve fewer, or set useIsolated",
			cputext.CPUs(rest), withVerb(o.Reserved.Intersect(online)))
	default:
		return fmt.Errorf("no CPU to give: isolcpus isolates %s, and the machine has no other CPUs; boot with fewer isolated CPUs, or set useIsolated", cputext.CPUs(rest))
	}
}

// withVerb returns a subject and its verb, such as "CPU 3 is" or "CPUs 0-3 are".
func withVerb(s cpuset.Set) string {
	if s.Count() == 1 {
		return cputext.CPUs(s) + " is"
	}
	return cputext.CPUs(s) + " are"
}

// capacity returns the CPU time of the usable CPUs.
func (n *Node) capacity() Milli { return n.total }

// Pools holds the exclusive, fractional and shared CPUs of a node. Each usable CPU is in exactly one of the sets.
type Pools struct {
	Exclusive, Fractional, Shared cpuset.Set
}

// Pools returns the exclusive, fractional and shared CPUs.
func (n *Node) Pools() Pools { return Pools{n.exclusive.Set(), n.fractional.Set(), n.shared.Set()} }

// Usable returns the CPUs that the node may give to containers.
func (n *Node) Usable() cpuset.Set { return n.usable }

// Machine returns the machine of the node.
func (n *Node) Machine() *topology.Machine { return n.machine }

// Shared returns the shared time: the CPU time of sensitive containers on CPUs that are in the cpusets of several
// containers.
func (n *Node) Shared() Milli { return n.sharedTime }

// Sensitive returns the sum of the sensitive containers' limits.
func (n *Node) Sensitive() Milli { return n.sensitive }

// Guaranteed returns the sum of the flexible containers' guarantees.
func (n *Node) Guaranteed() Milli { return n.flexible.need }

// Algorithm returns the algorithm of the node.
func (n *Node) Algorithm() Algorithm { return n.options.Algorithm }

// Options returns the options of the node, with defaults filled in.
func (n *Node) Options() Options { return n.options }

// Capacity returns the CPU time of the usable CPUs.
func (n *Node) Capacity() Milli { return n.total }

// Free returns the CPU time that is available to further containers of a class. The node refuses a request for more CPU time with
// ErrNoCapacity. The result is negative on a node that has lost too many CPUs.
func (n *Node) Free(class Class) Milli {
	if class == Flexible {
		return n.total - n.sensitive - n.flexible.need
	}
	return n.total - n.sensitive - n.nodeNeed()
}

// FlexibleCPUs returns the CPUs of flexible containers that are not confined to a domain.
func (n *Node) FlexibleCPUs() cpuset.Set {
	set, _ := n.flexibleSet()
	return set
}

// Grant returns the grant of a container, and whether the container exists.
func (n *Node) Grant(id string) (Grant, bool) {
	s, ok := n.byID[id]
	if !ok {
		return Grant{}, false
	}
	set := n.FlexibleCPUs()
	return n.grantOf(s, &set), true
}

// grantOf returns the grant of a slot. The grant shares no memory with the node. flexible is the set of CPUs of
// flexible containers.
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

// All yields every grant in order of arrival, without copying the grants. A yielded grant is valid until the next
// iteration. The node must not change during the iteration.
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

// A smallNode is a Node for a small machine with a single L3 domain and a single NUMA node. All initial memory of the
// node is in a single object, to reduce the cache and TLB misses of thousands of nodes.
type smallNode struct {
	Node
	load    [smallCPUs]cpuLoad
	counts  [2]poolCount
	amounts [3 * smallCPUs]int16
	order   [30]int32
	_       [56]byte // together with the header word of Go's allocator, aligns slots to cache lines
	slots   [smallSlots]slot
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
		n.load, n.tally, n.order = small.load[:cpus], newTally(small.amounts[:3*cpus]), small.order[:0]
		n.slots = small.slots[:0]
		n.inL3, n.inNUMA = small.counts[:len(l.l3s)], small.counts[len(l.l3s):][:len(l.numas)]
	} else {
		n = &Node{load: make([]cpuLoad, cpus), tally: newTally(make([]int16, 3*cpus))}
		n.inL3, n.inNUMA = make([]poolCount, len(l.l3s)), make([]poolCount, len(l.numas))
	}
	n.layout, n.scratch, n.firstEmpty = l, s, -1
	n.shared.Assign(&l.usable)
	whole := l.usable.Minus(l.partial)
	n.wholeCores.Assign(&whole)
	n.sharedCount = int32(n.shared.Count())
	n.countFree()
	return n
}

// countFree sets inL3 and inNUMA, the numbers of shared CPUs in each domain, for an empty node.
func (n *Node) countFree() {
	count := func(domain *cpuset.Set) poolCount {
		return poolCount{int16(domain.Count()), int16(n.wholeCores.CountIn(domain))}
	}
	for i := range n.l3s {
		n.inL3[i] = count(&n.l3s[i])
	}
	for i := range n.numas {
		n.inNUMA[i] = count(&n.numas[i])
	}
}
