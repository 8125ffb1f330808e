package hybrid

import (
	"fmt"
	"iter"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// A Node is the CPUs of one machine and who holds them.
type Node struct {
	*layout
	*scratch // twins share it

	// The pools: each usable CPU is in exactly one.
	shared, fractional, exclusive cpuset.Set
	wholeCores                    cpuset.Set // the shared CPUs whose core is shared as a whole
	sharedCount                   int

	load                       []cpuLoad // by CPU id
	coreFree, l3Free, numaFree []int16   // shared CPUs in each domain
	l3Whole, numaWhole         []int16   // those of them in wholeCores
	tally                      tally     // sums over the fractional CPUs
	sharedTime                 Milli
	packBins, packRoom         int32 // packable of the fractions, as they were when looked at last

	slots       []slot
	emptySlots  []int32
	byID        map[string]int32
	first, last int32 // the slots in order of arrival; -1: none

	sensitive Milli  // sum of the sensitive limits
	flexible  demand // of all flexible containers
	domains   []flexibleDomain
	confined  int // flexible containers in a domain of their own

	version uint64 // counts what was committed
	plans   uint64 // counts what was planned
	edits   []edit // of the plan that is being made
	others  []Change
	whose   []int32 // slots of the others
}

// cpuLoad is the sensitive time on one CPU.
type cpuLoad struct {
	used    Milli
	sharers int32 // sensitive grants that have a part of it
	closed  bool  // the core belongs to one whole-cores grant: nobody else joins
}

// room is the time that is left on a CPU.
func (c *cpuLoad) room() Milli {
	if c.closed {
		return 0
	}
	return 1000 - c.used
}

// A slot is one container on the node.
type slot struct {
	request     Request
	fractions   []Fraction // by rising CPU id
	domain      int32      // of a flexible container: index into Node.domains, or wholeNode
	prev, next  int32      // in order of arrival
	wholeCores  bool       // the wish for whole cores is kept
	linked      bool       // it is in the order of arrival, and in byID if it has an id
	touchedPlan uint64
	lost        *cpuset.Set // nil: none
	exclusive   cpuset.Set
}

// cpus returns the CPUs that a sensitive slot has.
func (s *slot) cpus() cpuset.Set {
	set := s.exclusive
	for _, f := range s.fractions {
		set.Add(f.CPU)
	}
	return set
}

// fractionOn returns the slot's part of a fractional CPU, or 0.
func (s *slot) fractionOn(cpu int) Milli {
	for _, f := range s.fractions {
		if f.CPU == cpu {
			return f.Milli
		}
	}
	return 0
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
	n := &Node{layout: newLayout(machine, &options), scratch: new(scratch)}
	n.empty()
	if n.usable.IsEmpty() {
		return nil, fmt.Errorf("no CPU to give: %s are online, %s reserved", quoteSet(machine.Online), quoteSet(options.Reserved))
	}
	if m := options.MinShared; m < 0 || m > n.capacity() {
		return nil, fmt.Errorf("min-shared %dm: want 0 to %s, the CPUs that can be given", m, n.capacity())
	}
	return n, nil
}

// empty makes a node one without containers.
func (n *Node) empty() {
	n.byID = make(map[string]int32)
	n.first, n.last = -1, -1
	n.shared, n.wholeCores = n.usable, n.usable
	n.sharedCount = n.shared.Count()
	n.load = make([]cpuLoad, len(n.layout.cpus))
	n.tally = newTally(n.sharedCount)
	n.countFree()
	n.domains = newFlexibleDomains(n.layout)
}

// quoteSet writes a set for an error line, where "" would be lost.
func quoteSet(s cpuset.Set) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}

// countFree counts the shared CPUs of each domain while all are shared. The counts
// are one piece of memory: whoever has many nodes waits for memory most of the time.
func (n *Node) countFree() {
	counts := make([]int16, 0, len(n.cores)+2*len(n.l3s)+2*len(n.numas))
	count := func(domains []cpuset.Set) []int16 {
		from := len(counts)
		for i := range domains {
			counts = append(counts, int16(domains[i].Count()))
		}
		return counts[from:]
	}
	n.coreFree, n.l3Free, n.numaFree = count(n.cores), count(n.l3s), count(n.numas)
	n.l3Whole, n.numaWhole = count(n.l3s), count(n.numas)
}

// capacity is the CPU time of the usable CPUs.
func (n *Node) capacity() Milli { return n.total }

// Pools of a node. Each usable CPU is in exactly one.
type Pools struct {
	Exclusive, Fractional, Shared cpuset.Set
}

// Pools returns which CPUs are exclusive, fractional and shared.
func (n *Node) Pools() Pools { return Pools{n.exclusive, n.fractional, n.shared} }

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
	grants := make([]Grant, 0, len(n.slots)-len(n.emptySlots))
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
		for s := n.first; s >= 0; s = n.slots[s].next {
			n.fillGrant(&g, s, &set)
			n.scratch.fractions = n.scratch.fractions[:scratch]
			if !yield(&g) {
				return
			}
		}
	}
}

// newSlot takes an empty slot for a request. It is not in byID yet.
func (n *Node) newSlot(r *Request) int32 {
	var s int32
	if last := len(n.emptySlots) - 1; last >= 0 {
		s = n.emptySlots[last]
		n.emptySlots = n.emptySlots[:last]
	} else {
		s = int32(len(n.slots))
		n.slots = append(n.slots, slot{})
	}
	fractions := n.slots[s].fractions[:0]
	n.slots[s] = slot{request: *r, fractions: fractions, domain: wholeNode, prev: -1, next: -1}
	if r.Class == Sensitive {
		n.slots[s].request.Guarantee = 0 // its limit is guaranteed, whatever that becomes
	}
	return s
}

// dropSlot gives a slot back that holds nothing and is in no list.
func (n *Node) dropSlot(s int32) {
	n.slots[s].request.ID = ""
	n.emptySlots = append(n.emptySlots, s)
}

// link enters a slot in byID and at the end of the order of arrival.
func (n *Node) link(s int32) {
	slot := &n.slots[s]
	if slot.request.ID != "" {
		n.byID[slot.request.ID] = s
	}
	slot.linked, slot.prev, slot.next = true, n.last, -1
	if n.last >= 0 {
		n.slots[n.last].next = s
	} else {
		n.first = s
	}
	n.last = s
}

// unlink undoes link.
func (n *Node) unlink(s int32) {
	slot := &n.slots[s]
	if slot.request.ID != "" {
		delete(n.byID, slot.request.ID)
	}
	slot.linked = false
	prev, next := slot.prev, slot.next
	if prev >= 0 {
		n.slots[prev].next = next
	} else {
		n.first = next
	}
	if next >= 0 {
		n.slots[next].prev = prev
	} else {
		n.last = prev
	}
}
