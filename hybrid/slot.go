package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A slot holds a container of the node in 64 bytes, a cache line. With thousands of nodes, cache
// misses dominate the run time.
type slot struct {
	exclusive cpuset.Compact
	spec
	details    *details        // nil: no details
	first      compactFraction // the fraction on the lowest CPU; 0m: no fraction
	domain     int32           // flexible containers: index into layout.domains, or wholeNode
	nextEmpty  int32           // empty slots: next in the free list; -1: end
	wholeCores bool            // the topology policy whole-cores is met
	isLinked   bool            // the slot is in Node.order, and in byID if it has an id
}

// A spec is a Request without its id.
type spec struct {
	Limit, Guarantee Milli
	Class            Class
	Policy           Policy
	Topology         TopologyPolicy
	Immovable        bool
}

// details are the rarely used fields of a slot.
type details struct {
	id      string
	lost    cpuset.Set
	further []compactFraction // all fractions except the first, in ascending order of CPU id
}

// A compactFraction is a compact Fraction.
type compactFraction struct {
	cpu, milli int16
}

func (p compactFraction) fraction() Fraction { return Fraction{int(p.cpu), Milli(p.milli)} }

func specOf(r *Request) spec {
	return spec{r.Limit, r.Guarantee, r.Class, r.Policy, r.Topology, r.Immovable}
}

// guaranteed returns Request.Guaranteed.
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

// lost returns the CPUs that were gone at Restore.
func (s *slot) lost() cpuset.Set {
	if s.details == nil {
		return cpuset.Set{}
	}
	return s.details.lost
}

// ensureDetails returns the details for modification.
func (s *slot) ensureDetails() *details {
	if s.details == nil {
		s.details = new(details)
	}
	return s.details
}

// cpus returns the CPUs of a sensitive slot.
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

// fractionOn returns the slot's part of a fractional CPU, or 0.
func (s *slot) fractionOn(cpu int) Milli {
	for i := range s.fractions() {
		if p := s.fraction(i); int(p.cpu) == cpu {
			return Milli(p.milli)
		}
	}
	return 0
}

// addFraction adds a fraction on a CPU without a fraction of the slot.
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

// removeFraction removes the slot's fraction on a CPU. It must exist.
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

// newSlot takes an empty slot for a request. It does not enter the slot in byID.
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
		slot.Guarantee = 0 // always its limit, also after a resize
	}
	if r.ID != "" {
		slot.ensureDetails().id = r.ID
	}
	return s
}

// dropSlot returns a slot to the free list. It must hold no CPUs and be in no list.
func (n *Node) dropSlot(s int32) {
	slot := &n.slots[s]
	if d := slot.details; d != nil {
		d.id, d.lost = "", cpuset.Set{}
	}
	slot.nextEmpty, n.firstEmpty = n.firstEmpty, s
}

// link enters a slot in byID and at the end of the order of arrival.
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

// A tally holds sums over the open fractional CPUs. They make the shared time of a tried arrangement
// cheap to compute.
type tally struct {
	open, multi  int32         // open fractional CPUs, and those with several sensitive grants
	room         Milli         // free time on the open CPUs
	multiUsed    Milli         // sensitive time on CPUs of several grants
	multiRoom    Milli         // free time on CPUs of several grants
	lone         sortedAmounts // sensitive time of each CPU with a single grant
	fractions    sortedAmounts // every fraction, including those on closed CPUs
	fractionTime Milli         // sum of parts

	packBins, packRoom int32 // result of packable(parts); packBins -1: out of date
}

// newTally returns an empty tally that uses the given memory. A third of it is for the loads of CPUs,
// which never exceed it. The fractions can outgrow their part; append then reallocates them.
func newTally(amounts []int16) tally {
	third := len(amounts) / 3
	return tally{lone: amounts[:0:third], fractions: amounts[third:third], packBins: -1}
}

// A sortedAmounts is a list of amounts below 1000m in ascending order. On a node of 8 CPUs it fits into a
// cache line.
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

// lend returns the sensitive time on the CPUs that must be lent, the least loaded first and at least
// one CPU, to gain the lacking time; impossible if the CPUs have too little free time.
func (l sortedAmounts) lend(lacking Milli) (lent Milli) {
	for _, used := range l {
		lent += Milli(used)
		if lacking -= 1000 - Milli(used); lacking <= 0 {
			return lent
		}
	}
	return impossible
}

// addFraction adds a fraction to the sums; removePart subtracts it.
func (t *tally) addFraction(milli Milli) {
	t.fractions.add(milli)
	t.fractionTime += milli
	t.packBins = -1
}

func (t *tally) removeFraction(milli Milli) {
	t.fractions.remove(milli)
	t.fractionTime -= milli
	t.packBins = -1
}

// add adds a CPU to the sums; remove subtracts it.
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
