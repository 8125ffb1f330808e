package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A slot is one container on the node: 64 bytes, a cache line. Whoever keeps thousands of nodes
// waits for memory most of the time.
type slot struct {
	exclusive cpuset.Compact
	wants
	details    *details // nil: none
	first      part     // the fraction on the lowest CPU; of 0m: none
	domain     int32    // of a flexible container: index into layout.domains, or wholeNode
	nextEmpty  int32    // of an empty slot; -1: none
	wholeCores bool     // the wish for whole cores is kept
	linked     bool     // it is in the order of arrival, and in byID if it has an id
}

// wants is a request but for its id.
type wants struct {
	Limit, Guarantee Milli
	Class            Class
	Policy           Policy
	Topology         TopologyPolicy
	Immovable        bool
}

// details are what thousands of nodes do without.
type details struct {
	id      string
	lost    cpuset.Set
	further []part // the fractions but for the first, by rising CPU id
}

// A part is a fraction in few bytes.
type part struct {
	cpu, milli int16
}

func (p part) fraction() Fraction { return Fraction{int(p.cpu), Milli(p.milli)} }

func wantsOf(r *Request) wants {
	return wants{r.Limit, r.Guarantee, r.Class, r.Policy, r.Topology, r.Immovable}
}

// guaranteed is that of the request.
func (w *wants) guaranteed() Milli {
	r := Request{Class: w.Class, Limit: w.Limit, Guarantee: w.Guarantee}
	return r.guaranteed()
}

// request returns what the container asked for.
func (s *slot) request() Request {
	w := &s.wants
	return Request{s.id(), w.Class, w.Policy, w.Limit, w.Guarantee, w.Topology, w.Immovable}
}

func (s *slot) id() string {
	if s.details == nil {
		return ""
	}
	return s.details.id
}

// lost returns the CPUs that Restore found gone.
func (s *slot) lost() cpuset.Set {
	if s.details == nil {
		return cpuset.Set{}
	}
	return s.details.lost
}

// detail returns the details, to be changed.
func (s *slot) detail() *details {
	if s.details == nil {
		s.details = new(details)
	}
	return s.details
}

// cpus returns the CPUs that a sensitive slot has.
func (s *slot) cpus() cpuset.Set {
	set := s.exclusive.Set()
	for i := range s.fractions() {
		set.Add(int(s.fraction(i).cpu))
	}
	return set
}

// fractions returns how many fractions the slot has.
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

// fraction returns the i-th fraction by rising CPU id.
func (s *slot) fraction(i int) part {
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

// addFraction adds a fraction on a CPU where the slot has none.
func (s *slot) addFraction(p part) {
	if s.first.milli == 0 {
		s.first = p
		return
	}
	if p.cpu < s.first.cpu {
		p, s.first = s.first, p
	}
	d := s.detail()
	i := 0
	for i < len(d.further) && d.further[i].cpu < p.cpu {
		i++
	}
	d.further = slices.Insert(d.further, i, p)
}

// removeFraction removes the fraction on a CPU, which is there.
func (s *slot) removeFraction(cpu int) {
	at := 0
	for int(s.fraction(at).cpu) != cpu {
		at++
	}
	switch {
	case at > 0:
		s.details.further = slices.Delete(s.details.further, at-1, at)
	case s.fractions() > 1:
		s.first = s.details.further[0]
		s.details.further = slices.Delete(s.details.further, 0, 1)
	default:
		s.first = part{}
	}
}

// newSlot takes an empty slot for a request. It is not in byID yet.
func (n *Node) newSlot(r *Request) int32 {
	s := n.firstEmpty
	if s >= 0 {
		n.firstEmpty = n.slots[s].nextEmpty
	} else {
		s = int32(len(n.slots))
		n.slots = append(n.slots, slot{})
	}
	slot := &n.slots[s]
	slot.wants, slot.domain, slot.wholeCores = wantsOf(r), wholeNode, false
	if r.Class == Sensitive {
		slot.Guarantee = 0 // its limit is guaranteed, whatever that becomes
	}
	if r.ID != "" {
		slot.detail().id = r.ID
	}
	return s
}

// dropSlot gives a slot back that holds nothing and is in no list.
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
	slot.linked = true
	n.order = append(n.order, s)
}

// unlink undoes link.
func (n *Node) unlink(s int32) {
	slot := &n.slots[s]
	if id := slot.id(); id != "" {
		delete(n.byID, id)
	}
	slot.linked = false
	at := slices.Index(n.order, s)
	n.order = slices.Delete(n.order, at, at+1)
}

// tally holds sums over the open fractional CPUs, so that the shared time of a
// node need not be counted anew for every arrangement that is tried.
type tally struct {
	open, multi int32  // open fractional CPUs, and those of them with several sensitive grants
	room        Milli  // time left on the open ones
	multiUsed   Milli  // sensitive time on those of several grants
	multiRoom   Milli  // time left on those
	lone        ladder // sensitive time on each of those of one grant
	parts       ladder // every fraction, on closed CPUs too
	partsUsed   Milli  // their sum

	packBins, packRoom int32 // packable of the parts; bins of -1: they have changed since
}

// newTally returns an empty tally with memory for so many amounts. A third of them is for the loads of CPUs, of
// which there are no more than that; fractions may be more, and take other memory then.
func newTally(rungs []int16) tally {
	third := len(rungs) / 3
	return tally{lone: rungs[:0:third], parts: rungs[third:third], packBins: -1}
}

// A ladder is amounts below a CPU, the least first. They are few: on a node of 8 CPUs all fit into a cache line.
type ladder []int16

func (l *ladder) add(amount Milli) {
	rungs := append(*l, 0)
	i := len(rungs) - 1
	for ; i > 0 && Milli(rungs[i-1]) > amount; i-- {
		rungs[i] = rungs[i-1]
	}
	rungs[i] = int16(amount)
	*l = rungs
}

// remove removes an amount that is there.
func (l *ladder) remove(amount Milli) {
	rungs := *l
	last := len(rungs) - 1
	held := rungs[last]
	for i := last - 1; Milli(held) != amount; i-- {
		held, rungs[i] = rungs[i], held
	}
	*l = rungs[:last]
}

// lend returns the sensitive time on the CPUs that must be lent, the least loaded
// first, to find some time that is lacking, one CPU at least; impossible if they have less.
func (l ladder) lend(lacking Milli) (lent Milli) {
	for _, used := range l {
		lent += Milli(used)
		if lacking -= 1000 - Milli(used); lacking <= 0 {
			return lent
		}
	}
	return impossible
}

// addPart counts a fraction in; removePart counts it out.
func (t *tally) addPart(milli Milli) {
	t.parts.add(milli)
	t.partsUsed += milli
	t.packBins = -1
}

func (t *tally) removePart(milli Milli) {
	t.parts.remove(milli)
	t.partsUsed -= milli
	t.packBins = -1
}

// add counts a CPU in; remove counts it out.
func (t *tally) add(c *cpuLoad) {
	switch {
	case c.closed:
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
	case c.closed:
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
