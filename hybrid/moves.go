package hybrid

import "github.com/candor-project/candor/cpuset"

// Moving a fraction is the only thing that candor does to a running container:
// the number of CPUs that it sees stays, and so do its exclusive CPUs. Each operation
// may move a bounded number of fractions, to lower the shared time or, more of them, to
// make room where a request would be refused otherwise.

// Bounds on moves where the options set none.
const (
	DefaultMoves       = 4
	DefaultRescueMoves = 64
)

// An item is a fraction, for the time of one search.
type item struct {
	slot   int32
	cpu    int16
	milli  int16
	pinned bool // must stay
	own    bool // of the container that the plan is for: moving it costs nothing
}

// A step moves an item to a CPU.
type step struct {
	item int32
	cpu  int16
}

// scratch is memory that searches use again and again.
type scratch struct {
	items     []item
	log       []step // moves made, with the CPU that each came from
	best      []step
	fractions []Fraction
	targets   []int16
	round     uint64            // of looking for targets
	seen      [2][1000]sighting // by whether several grants are on a CPU, and their time
	pack      packer
}

// collect lists the fractions of the node; own is the slot that the plan is for, or -1.
func (n *Node) collect(own int32) {
	items := n.scratch.items[:0]
	for s := n.first; s >= 0; s = n.slots[s].next {
		items = n.appendItems(items, s, s == own, n.slots[s].request.Immovable)
	}
	if own >= 0 {
		if _, linked := n.byID[n.slots[own].request.ID]; !linked {
			items = n.appendItems(items, own, true, false) // a new one: nothing runs yet
		}
	}
	n.scratch.items = items
	n.scratch.log = n.scratch.log[:0]
}

func (n *Node) appendItems(items []item, s int32, own, immovable bool) []item {
	slot := &n.slots[s]
	pinned := slot.wholeCores || immovable
	for _, f := range slot.fractions {
		items = append(items, item{s, int16(f.CPU), int16(f.Milli), pinned, own})
	}
	return items
}

// mayUse reports whether an item could be on a CPU as far as its container's
// wish and view allow; room is not looked at.
func (n *Node) mayUse(it *item, cpu int) bool {
	slot := &n.slots[it.slot]
	if it.pinned || n.load[cpu].closed || slot.fractionOn(cpu) > 0 || slot.exclusive.Contains(cpu) {
		return false
	}
	at := n.layout.cpus[cpu]
	switch slot.request.Wish {
	case SingleNUMA:
		return n.keepsDomain(it, &n.numas[at.numa])
	case SingleL3:
		return n.keepsDomain(it, &n.l3s[at.l3])
	default:
		return true
	}
}

// keepsDomain reports whether a container that wished for one domain has all its
// CPUs, but for the one that the item leaves, in this one. (A best-effort container
// may have got more than one: then its fraction may go to any domain that it uses.)
func (n *Node) keepsDomain(it *item, domain *cpuset.Set) bool {
	holds := n.otherCPUs(it)
	return holds.IsEmpty() || holds.Overlaps(domain)
}

// otherCPUs returns the CPUs of an item's container but for the item's own.
func (n *Node) otherCPUs(it *item) cpuset.Set {
	holds := n.slots[it.slot].cpus()
	holds.Remove(int(it.cpu))
	return holds
}

// move moves an item and notes where it came from.
func (n *Node) move(i int32, cpu int) {
	it := &n.scratch.items[i]
	n.scratch.log = append(n.scratch.log, step{i, it.cpu})
	n.take(it.slot, int(it.cpu))
	n.give(it.slot, cpu, Milli(it.milli))
	it.cpu = int16(cpu)
}

// unmove undoes the moves after the first logged ones.
func (n *Node) unmove(logged, mark int) {
	log := n.scratch.log
	for i := len(log) - 1; i >= logged; i-- {
		n.scratch.items[log[i].item].cpu = log[i].cpu
	}
	n.scratch.log = log[:logged]
	n.undo(mark)
}

// price returns how many moves of other containers a list of steps is.
func (n *Node) price(steps []step) int {
	moves := 0
	for _, s := range steps {
		if !n.scratch.items[s.item].own {
			moves++
		}
	}
	return moves
}

// improve lowers the shared time with up to budget moves, and returns how many it made.
func (n *Node) improve(own int32, budget int) int {
	shared := n.settle()
	if budget <= 0 || shared == 0 || shared == impossible {
		return 0
	}
	n.collect(own)
	moves := 0
	for shared > 0 {
		s := search{Node: n, start: shared, best: shared, budget: budget - moves}
		s.run()
		if s.best == shared {
			break
		}
		moves += n.price(n.scratch.best)
		for _, step := range n.scratch.best {
			n.move(step.item, int(step.cpu))
		}
		shared = s.best
	}
	return moves + n.improveByRepacking(own, shared, budget-moves)
}

// A search looks for the few moves, done together, that lower the shared time most.
type search struct {
	*Node
	start  Milli // shared time now
	best   Milli // the least that was found
	moves  int   // what that takes
	budget int
	tries  int        // arrangements that may still be looked at
	free   cpuset.Set // shared CPUs that sensitive containers may use

	inDomains bool // flexible containers have domains of their own
}

// searchTries bounds the time of a search on nodes with hundreds of fractions;
// on one with 64 CPUs a search ends by itself.
const searchTries = 2_000

func (s *search) run() {
	s.free, s.inDomains = s.available(), s.anyDomain()
	s.tries = searchTries
	s.scratch.best = s.scratch.best[:0]
	s.singleMoves()
	if s.budget >= 2 {
		s.swaps()
		s.evacuations()
	}
}

// consider notes the moves made since the first logged ones if they are the best.
func (s *search) consider() {
	shared := s.settle()
	if shared > s.best || shared == s.start {
		return
	}
	moves := s.price(s.scratch.log)
	if moves > s.budget || shared == s.best && moves >= s.moves {
		return
	}
	s.best, s.moves = shared, moves
	s.scratch.best = s.scratch.best[:0]
	for _, done := range s.scratch.log {
		s.scratch.best = append(s.scratch.best, step{done.item, s.scratch.items[done.item].cpu})
	}
}

// try makes one move if it is allowed and there is room, and reports whether it did.
func (s *search) try(i int32, cpu int) bool {
	it := &s.scratch.items[i]
	if s.tries == 0 || Milli(it.milli) > s.load[cpu].room() || !s.mayUse(it, cpu) {
		return false
	}
	s.tries--
	s.move(i, cpu)
	return true
}

// reset undoes what was tried.
func (s *search) reset(mark int) { s.unmove(0, mark) }

// singleMoves tries to move each fraction to each other fractional CPU and to a
// CPU of its own.
func (s *search) singleMoves() {
	s.scratch.log = s.scratch.log[:0]
	mark := s.mark()
	for i := range s.scratch.items {
		it := &s.scratch.items[i]
		if it.pinned {
			continue
		}
		from := s.load[it.cpu]
		if from.sharers > 1 {
			if cpu := s.freeCPUFor(it); cpu >= 0 && s.try(int32(i), cpu) {
				s.consider()
				s.reset(mark)
			}
		}
		for _, cpu := range s.distinct(it, &from) {
			if s.try(int32(i), int(cpu)) {
				s.consider()
				s.reset(mark)
			}
		}
	}
}

// distinct returns the fractional CPUs to which moving an item may help, but of
// those that are loaded alike only the nearest: the shared time would be the same.
func (s *search) distinct(it *item, from *cpuLoad) []int16 {
	holds := s.otherCPUs(it)
	cpus := s.scratch.targets[:0]
	s.scratch.round++
	for cpu := s.fractional.First(); cpu >= 0; cpu = s.fractional.Next(cpu + 1) {
		to := &s.load[cpu]
		if !s.mayHelp(it, from, to) || !s.mayUse(it, cpu) {
			continue
		}
		if alike := s.alike(to, len(cpus)); alike < 0 {
			cpus = append(cpus, int16(cpu))
		} else if s.remoteness(&holds, cpu) < s.remoteness(&holds, int(cpus[alike])) {
			cpus[alike] = int16(cpu)
		}
	}
	s.scratch.targets = cpus
	return cpus
}

// alike returns the index in targets of a CPU that is loaded as another is, or -1,
// and then the other will be at the index next. Where flexible containers have domains of their own no two are alike.
func (s *search) alike(to *cpuLoad, next int) int {
	if s.inDomains {
		return -1
	}
	multi := 0
	if to.sharers > 1 {
		multi = 1
	}
	seen := &s.scratch.seen[multi][to.used]
	if seen.round == s.scratch.round {
		return int(seen.index)
	}
	*seen = sighting{s.scratch.round, int16(next)}
	return -1
}

// A sighting is where a search saw a CPU with some load last.
type sighting struct {
	round uint64
	index int16
}

// mayHelp reports whether moving an item between two fractional CPUs can lower
// the shared time at all, from their loads alone. It is a filter for speed: what it refuses cannot
// help, unless flexible containers get a CPU back by it.
func (s *search) mayHelp(it *item, from, to *cpuLoad) bool {
	if Milli(it.milli) > to.room() {
		return false
	}
	gain := Milli(0) // shared time that ends
	if from.sharers == 2 {
		gain = from.used - Milli(it.milli)
	}
	if to.sharers == 1 {
		gain -= to.used
	}
	// Lending lets a CPU's fraction be shared with flexible containers: only
	// then can a move that shares more between sensitive ones be worth it.
	return gain > 0 || s.start > s.tally.multiUsed
}

// freeCPUFor returns the shared CPU that suits an item best, or -1.
func (s *search) freeCPUFor(it *item) int {
	holds := s.otherCPUs(it)
	best, bestFar := -1, 0
	for cpu := s.free.First(); cpu >= 0; cpu = s.free.Next(cpu + 1) {
		if !s.mayUse(it, cpu) {
			continue
		}
		// A CPU of a split core leaves whole cores whole.
		far := 2 * s.remoteness(&holds, cpu)
		if s.wholeCores.Contains(cpu) && s.threads > 1 {
			far++
		}
		if best < 0 || far < bestFar {
			best, bestFar = cpu, far
		}
		if far == 0 {
			break
		}
	}
	return best
}

// swaps tries to exchange the largest fraction that shares a CPU with each
// smaller one that has a CPU to itself.
func (s *search) swaps() {
	large := s.largestSharing()
	if large < 0 {
		return
	}
	mark := s.mark()
	for j := range s.scratch.items {
		small := &s.scratch.items[j]
		big := &s.scratch.items[large]
		if small.pinned || s.load[small.cpu].sharers > 1 || small.milli >= big.milli {
			continue
		}
		hole, home := int(big.cpu), int(small.cpu)
		s.scratch.log = s.scratch.log[:0]
		if s.mayUse(big, home) && s.mayUse(small, hole) {
			s.exchange(large, int32(j), hole, home)
			s.consider()
		}
		s.reset(mark)
	}
	s.scratch.log = s.scratch.log[:0]
}

// exchange moves two items to each other's CPU.
func (s *search) exchange(a, b int32, aCPU, bCPU int) {
	items := s.scratch.items
	s.scratch.log = append(s.scratch.log, step{a, int16(aCPU)}, step{b, int16(bCPU)})
	s.take(items[a].slot, aCPU)
	s.take(items[b].slot, bCPU)
	s.give(items[a].slot, bCPU, Milli(items[a].milli))
	s.give(items[b].slot, aCPU, Milli(items[b].milli))
	items[a].cpu, items[b].cpu = int16(bCPU), int16(aCPU)
}

// largestSharing returns the largest fraction that may move and that shares its
// CPU with another, or -1.
func (s *search) largestSharing() int32 {
	best := int32(-1)
	for i := range s.scratch.items {
		it := &s.scratch.items[i]
		if !it.pinned && s.load[it.cpu].sharers > 1 && (best < 0 || it.milli > s.scratch.items[best].milli) {
			best = int32(i)
		}
	}
	return best
}

// evacuations tries to empty each fractional CPU, and to give it to the largest
// fraction that shares its CPU.
func (s *search) evacuations() {
	places := s.fractional
	mark := s.mark()
	for cpu := places.First(); cpu >= 0; cpu = places.Next(cpu + 1) {
		if s.load[cpu].closed || int(s.load[cpu].sharers) > s.budget {
			continue
		}
		s.scratch.log = s.scratch.log[:0]
		if s.evacuate(cpu, nil) {
			s.consider()
			if large := s.largestSharing(); large >= 0 && s.try(large, cpu) {
				s.consider()
			}
		}
		s.reset(mark)
	}
}

// evacuate moves every fraction away from a CPU, the largest first, to the
// fractional CPUs where they fit best: fullest first, those of several containers before
// those of one, since their time is shared already. Where elsewhere is not nil its CPUs can be
// used too. It reports whether the CPU is empty; if not, the caller undoes.
func (n *Node) evacuate(cpu int, elsewhere *cpuset.Set) bool {
	for n.load[cpu].sharers > 0 {
		largest := int32(-1)
		for i := range n.scratch.items {
			it := &n.scratch.items[i]
			if int(it.cpu) == cpu && (largest < 0 || it.milli > n.scratch.items[largest].milli) {
				largest = int32(i)
			}
		}
		if largest < 0 {
			return false
		}
		places := n.fractional
		if elsewhere != nil {
			places.AddAll(elsewhere)
		}
		to := n.bestFit(&n.scratch.items[largest], &places)
		if to < 0 {
			return false
		}
		n.move(largest, to)
	}
	return true
}

// bestFit returns the CPU of places where an item fits best, but the one where
// it is; -1: none. Of CPUs that are as good it is the nearest to the container's other ones.
func (n *Node) bestFit(it *item, places *cpuset.Set) int {
	best := -1
	var bestKey [3]int
	holds := n.otherCPUs(it)
	for cpu := places.First(); cpu >= 0; cpu = places.Next(cpu + 1) {
		c := &n.load[cpu]
		if cpu == int(it.cpu) || c.room() < Milli(it.milli) || !n.mayUse(it, cpu) {
			continue
		}
		// Sharing costs what the other one has there, if it was alone.
		key := [3]int{0, int(c.room()), n.remoteness(&holds, cpu)}
		if c.sharers == 1 {
			key[0], key[1] = 1, int(c.used)
		}
		if best < 0 || lessKey(&key, &bestKey) {
			best, bestKey = cpu, key
		}
	}
	return best
}
