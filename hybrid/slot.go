package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A slot holds a container of the node, in 64 bytes, a cache line. With thousands of nodes, cache misses dominate the run
// time.
type slot struct {
	exclusive cpuset.Compact
	spec
	details    *details        // nil: no details
	first      compactFraction // the fraction on the lowest CPU; 0m means no fraction
	domain     int32           // of a flexible container: index into layout.domains, or wholeNode
	nextEmpty  int32           // of an empty slot: next slot in the free list; -1: end of the list
	wholeCores bool            // the container has the topology policy whole-cores, and its CPUs meet the policy
	isLinked   bool            // the slot is in Node.order and, if the container has an id, in Node.byID
}

// A spec is a Request without its id.
type spec struct {
	Limit, Guarantee Milli
	Class            Class
	Policy           Policy
	Topology         TopologyPolicy
	Immovable        bool
}

// details holds the rarely used fields of a slot.
type details struct {
	id      string
	lost    cpuset.Set
	further []compactFraction // all fractions except the first, in ascending order of CPU id
}

// A compactFraction is a Fraction in four bytes.
type compactFraction struct {
	cpu, milli int16
}

func (p compactFraction) fraction() Fraction { return Fraction{int(p.cpu), Milli(p.milli)} }

func specOf(r *Request) spec {
	return spec{r.Limit, r.Guarantee, r.Class, r.Policy, r.Topology, r.Immovable}
}

// guaranteed returns the value of Request.Guaranteed.
func (w *spec) guaranteed() Milli {
	return GuaranteedTime(w.Class, w.Limit, w.Guarantee)
}

// request returns the container's request.
func (s *slot) request() Request {
	w := &s.spec
	return Request{s.id(), w.Class, w.Policy, w.Limit, w.Guarantee, w.Topology, w.Immovable}
}

func (s *slot) id() string {
	if s.details == nil {
		return ""
	}
	return s.details.id
}

// lost returns the value of Grant.Lost.
func (s *slot) lost() cpuset.Set {
	if s.details == nil {
		return cpuset.Set{}
	}
	return s.details.lost
}

// ensureDetails returns the details of a slot, for changes. It allocates them if necessary.
func (s *slot) ensureDetails() *details {
	if s.details == nil {
		s.details = new(details)
	}
	return s.details
}

// cpus returns the exclusive and fractional CPUs of a sensitive slot.
func (s *slot) cpus() cpuset.Set {
	set := s.exclusive.Set()
	for i := range s.fractions() {
		set.Add(int(s.fraction(i).cpu))
	}
	return set
}

// fractions returns the number of fractions.
func (s *slot) fractions() int {
	switch {
	case s.first.milli == 0:
		return 0
	case s.details == nil:
		return 1
	default:
		return 1 + len(s.details.further)
	}
}

// fraction returns the i-th fraction in ascending order of CPU id.
func (s *slot) fraction(i int) compactFraction {
	if i == 0 {
		return s.first
	}
	return s.details.further[i-1]
}

// fractionOn returns the size of the slot's fraction on a CPU; 0 if it has none there.
func (s *slot) fractionOn(cpu int) Milli {
	for i := range s.fractions() {
		if p := s.fraction(i); int(p.cpu) == cpu {
			return Milli(p.milli)
		}
	}
	return 0
}

// addFraction adds a fraction. The slot must not have a fraction on the same CPU.
func (s *slot) addFraction(p compactFraction) {
	if s.first.milli == 0 {
		s.first = p
		return
	}
	if p.cpu < s.first.cpu {
		p, s.first = s.first, p
	}
	d := s.ensureDetails()
	i := 0
	for i < len(d.further) && d.further[i].cpu < p.cpu {
		i++
	}
	d.further = slices.Insert(d.further, i, p)
}

// removeFraction removes the slot's fraction on a CPU. The slot must have a fraction on this CPU.
func (s *slot) removeFraction(cpu int) {
	i := 0
	for int(s.fraction(i).cpu) != cpu {
		i++
	}
	switch {
	case i > 0:
		s.details.further = slices.Delete(s.details.further, i-1, i)
	case s.fractions() > 1:
		s.first = s.details.further[0]
		s.details.further = slices.Delete(s.details.further, 0, 1)
	default:
		s.first = compactFraction{}
	}
}

// newSlot assigns an empty slot to a request. It does not link the slot.
func (n *Node) newSlot(r *Request) int32 {
	s := n.firstEmpty
	if s >= 0 {
		n.firstEmpty = n.slots[s].nextEmpty
	} else {
		s = int32(len(n.slots))
		n.slots = append(n.slots, slot{})
	}
	slot := &n.slots[s]
	slot.spec, slot.domain, slot.wholeCores = specOf(r), wholeNode, false
	if r.Class == Sensitive {
		slot.Guarantee = 0 // the guarantee is always the limit, even after a resize
	}
	if r.ID != "" {
		slot.ensureDetails().id = r.ID
	}
	return s
}

// dropSlot returns a slot to the free list. The slot must have no CPUs and must not be linked.
func (n *Node) dropSlot(s int32) {
	slot := &n.slots[s]
	if d := slot.details; d != nil {
		d.id, d.lost = "", cpuset.Set{}
	}
	slot.nextEmpty, n.firstEmpty = n.firstEmpty, s
}

// link adds a slot to n.byID and at the end of n.order.
func (n *Node) link(s int32) {
	slot := &n.slots[s]
	if id := slot.id(); id != "" {
		if n.byID == nil {
			n.byID = make(map[string]int32)
		}
		n.byID[id] = s
	}
	slot.isLinked = true
	n.order = append(n.order, s)
}

// unlink reverts link.
func (n *Node) unlink(s int32) {
	slot := &n.slots[s]
	if id := slot.id(); id != "" {
		delete(n.byID, id)
	}
	slot.isLinked = false
	i := slices.Index(n.order, s)
	n.order = slices.Delete(n.order, i, i+1)
}

// A tally holds sums and sorted amounts of the fractional CPUs, from which the node computes its shared time quickly. The comment
// of Summary defines open, lone and multi CPUs.
type tally struct {
	open, multi  int32         // number of open fractional CPUs, and of multi CPUs among them
	room         Milli         // free time on the open CPUs
	multiUsed    Milli         // sensitive time on multi CPUs
	multiRoom    Milli         // free time on multi CPUs
	lone         sortedAmounts // sensitive time of each lone CPU
	fractions    sortedAmounts // size of each fraction, including the fractions on closed CPUs
	fractionTime Milli         // sum of fractions

	packBins, packRoom int32 // result of packBound(fractions); packBins is -1 if the result is out of date
}

// newTally returns an empty tally that uses the given memory. A third of the memory is for the list lone, which never
// needs more. The rest is for the list fractions. If the rest is too small, append allocates new memory.
func newTally(amounts []int16) tally {
	third := len(amounts) / 3
	return tally{lone: amounts[:0:third], fractions: amounts[third:third], packBins: -1}
}

// A sortedAmounts is a list of amounts below 1000m in ascending order. On a node of 8 CPUs, the list fits into a cache line.
type sortedAmounts []int16

func (l *sortedAmounts) add(amount Milli) {
	amounts := append(*l, 0)
	i := len(amounts) - 1
	for ; i > 0 && Milli(amounts[i-1]) > amount; i-- {
		amounts[i] = amounts[i-1]
	}
	amounts[i] = int16(amount)
	*l = amounts
}

// remove removes an amount, which must be in the list.
func (l *sortedAmounts) remove(amount Milli) {
	amounts := *l
	last := len(amounts) - 1
	next := amounts[last]
	for i := last - 1; Milli(next) != amount; i-- {
		next, amounts[i] = amounts[i], next
	}
	*l = amounts[:last]
}

// lend returns the sensitive time on the lone CPUs that the node must lend to flexible containers. l has the sensitive time of
// each lone CPU, and lacking is the time that the flexible containers need on these CPUs. The least loaded CPUs are lent first,
// and at least one CPU is lent. If all lone CPUs together have too little room, lend returns impossible.
func (l sortedAmounts) lend(lacking Milli) (lent Milli) {
	for _, used := range l {
		lent += Milli(used)
		if lacking -= 1000 - Milli(used); lacking <= 0 {
			return lent
		}
	}
	return impossible
}

// addFraction adds a fraction to the sums.
func (t *tally) addFraction(milli Milli) {
	t.fractions.add(milli)
	t.fractionTime += milli
	t.packBins = -1
}

// removeFraction reverts addFraction.
func (t *tally) removeFraction(milli Milli) {
	t.fractions.remove(milli)
	t.fractionTime -= milli
	t.packBins = -1
}

// add adds a fractional CPU to the sums. It ignores a closed CPU.
func (t *tally) add(c *cpuLoad) {
	switch {
	case c.isClosed:
		return
	case c.sharers == 1:
		t.lone.add(c.used())
	default:
		t.multi++
		t.multiUsed += c.used()
		t.multiRoom += 1000 - c.used()
	}
	t.open++
	t.room += 1000 - c.used()
}

// remove reverts add.
func (t *tally) remove(c *cpuLoad) {
	switch {
	case c.isClosed:
		return
	case c.sharers == 1:
		t.lone.remove(c.used())
	default:
		t.multi--
		t.multiUsed -= c.used()
		t.multiRoom -= 1000 - c.used()
	}
	t.open--
	t.room -= 1000 - c.used()
}
