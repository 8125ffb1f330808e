package hybrid

import (
	"github.com/candor-project/candor/cpuset"
)

// A search looks for the moves that lower the shared time most: a single move, a swap, or the evacuation of a CPU.
type search struct {
	*Node
	start  Milli      // shared time at the start
	best   Milli      // lowest shared time found
	bound  Milli      // lower bound on the shared time
	moves  int        // number of moves that lead to best
	budget int        // maximum number of moves
	tries  int        // number of arrangements of the fractions that the search can still evaluate
	free   cpuset.Set // shared CPUs that sensitive containers may use

	ownItems  int  // number of fractions (items) of the plan's container
	inDomains bool // some flexible containers are confined to domains
}

// searchTries is the maximum number of arrangements of the fractions that a search evaluates. It matters on nodes with
// hundreds of fractions; on a node with 64 CPUs, a search ends earlier. Moves that the search skips do not count.
const searchTries = 2_000

func (s *search) run() {
	s.free, s.inDomains = s.available(), s.hasConfined()
	s.tries = searchTries
	if s.inDomains {
		s.tries /= 4 // an evaluation takes longer
	}
	s.scratch.best = s.scratch.best[:0]
	for i := range s.scratch.items {
		if s.scratch.items[i].isOwn {
			s.ownItems++
		}
	}
	s.trySingleMoves()
	if s.budget >= 2 && !s.isDone() {
		s.trySwaps()
		s.tryEvacuations()
	}
}

// isDone reports whether no better result is possible, because best equals bound with at most one move. If the plan's
// container has several items, their moves are free, so a group of moves can still be better.
func (s *search) isDone() bool { return s.best == s.bound && s.moves <= 1 && s.ownItems <= 1 }

// isBetter reports whether this shared time, reached with this number of moves, is better than the best result so far.
func (s *search) isBetter(shared Milli, moves int) bool {
	return shared < s.best && moves <= s.budget || shared == s.best && shared < s.start && moves < s.moves
}

// recordIfBest records the logged moves if their result is better than the best result so far.
func (s *search) recordIfBest() {
	shared := s.sharedIfValid()
	if shared > s.best {
		return
	}
	moves := s.countMoves(s.scratch.log)
	if !s.isBetter(shared, moves) {
		return
	}
	s.best, s.moves = shared, moves
	s.scratch.best = s.scratch.best[:0]
	for _, done := range s.scratch.log {
		s.scratch.best = append(s.scratch.best, step{done.item, s.scratch.items[done.item].cpu})
	}
}

// tryMove makes a move if the move is permitted and fits, and reports whether it did.
func (s *search) tryMove(i int32, cpu int) bool {
	it := &s.scratch.items[i]
	if s.tries == 0 || Milli(it.milli) > s.load[cpu].room() || !s.canUse(it, cpu) {
		return false
	}
	s.tries--
	s.move(i, cpu)
	return true
}

// undoAll undoes all logged moves, and all edits after the mark.
func (s *search) undoAll(mark int) { s.undoMoves(0, mark) }

// sharedAfter returns the shared time that the node would have after the move of an item to a CPU.
func (s *search) sharedAfter(it *item, cpu int) Milli {
	if s.inDomains {
		mark := s.mark()
		s.take(it.slot, int(it.cpu))
		s.give(it.slot, cpu, Milli(it.milli))
		shared := s.sharedIfValid()
		s.undo(mark)
		return shared
	}
	from, to := &s.load[it.cpu], &s.load[cpu]
	s.shift(from, to, Milli(it.milli))
	shared := s.sharedIfValid()
	s.shift(to, from, Milli(it.milli))
	return shared
}

// shift moves the time of a fraction between two CPUs, but only in their loads and in the node's sums.
func (s *search) shift(from, to *cpuLoad, milli Milli) {
	s.removeFromSums(from)
	s.removeFromSums(to)
	from.milli, from.sharers = from.milli-int16(milli), from.sharers-1
	to.milli, to.sharers = to.milli+int16(milli), to.sharers+1
	s.addToSums(from)
	s.addToSums(to)
}

// addToSums adds a shared or fractional CPU to the node's sums.
func (s *search) addToSums(c *cpuLoad) {
	if c.sharers == 0 {
		s.sharedCount++
	} else {
		s.tally.add(c)
	}
}

// removeFromSums reverts addToSums.
func (s *search) removeFromSums(c *cpuLoad) {
	if c.sharers == 0 {
		s.sharedCount--
	} else {
		s.tally.remove(c)
	}
}

// trySingleMoves evaluates the move of each fraction to each CPU of distinctTargets. If the CPU of the fraction has other
// fractions, trySingleMoves also evaluates the move to a shared CPU, where the fraction is alone.
func (s *search) trySingleMoves() {
	for i := range s.scratch.items {
		it := &s.scratch.items[i]
		if it.isPinned || s.isDone() && !it.isOwn {
			continue
		}
		from := s.load[it.cpu]
		if from.sharers > 1 {
			if cpu := s.freeCPUFor(it); cpu >= 0 {
				s.evaluateMove(int32(i), cpu)
			}
		}
		for _, cpu := range s.distinctTargets(it, &from) {
			s.evaluateMove(int32(i), int(cpu))
		}
	}
}

// evaluateMove evaluates a permitted move on its own.
func (s *search) evaluateMove(i int32, cpu int) {
	if s.tries == 0 {
		return
	}
	s.tries--
	it := &s.scratch.items[i]
	moves := 1
	if it.isOwn {
		moves = 0
	}
	if shared := s.sharedAfter(it, cpu); s.isBetter(shared, moves) {
		s.best, s.moves = shared, moves
		s.scratch.best = append(s.scratch.best[:0], step{i, int16(cpu)})
	}
}

// trySwaps takes the largest fraction that shares its CPU with other fractions (largestSharing). It evaluates the
// exchange of this fraction with each smaller fraction that is alone on a CPU.
func (s *search) trySwaps() {
	large := s.largestSharing()
	if large < 0 {
		return
	}
	mark := s.mark()
	for j := range s.scratch.items {
		small := &s.scratch.items[j]
		big := &s.scratch.items[large]
		if small.isPinned || s.load[small.cpu].sharers > 1 || small.milli >= big.milli {
			continue
		}
		bigCPU, smallCPU := int(big.cpu), int(small.cpu)
		s.scratch.log = s.scratch.log[:0]
		if s.canUse(big, smallCPU) && s.canUse(small, bigCPU) {
			s.exchange(large, int32(j), bigCPU, smallCPU)
			s.recordIfBest()
		}
		s.undoAll(mark)
	}
	s.scratch.log = s.scratch.log[:0]
}

// exchange swaps the CPUs of two items.
func (s *search) exchange(a, b int32, aCPU, bCPU int) {
	items := s.scratch.items
	s.scratch.log = append(s.scratch.log, step{a, int16(aCPU)}, step{b, int16(bCPU)})
	s.take(items[a].slot, aCPU)
	s.take(items[b].slot, bCPU)
	s.give(items[a].slot, bCPU, Milli(items[a].milli))
	s.give(items[b].slot, aCPU, Milli(items[b].milli))
	items[a].cpu, items[b].cpu = int16(bCPU), int16(aCPU)
}

// largestSharing returns the largest movable fraction on a CPU of several grants, or -1.
func (s *search) largestSharing() int32 {
	best := int32(-1)
	for i := range s.scratch.items {
		it := &s.scratch.items[i]
		if !it.isPinned && s.load[it.cpu].sharers > 1 && (best < 0 || it.milli > s.scratch.items[best].milli) {
			best = int32(i)
		}
	}
	return best
}

// tryEvacuations tries to move all fractions away from a fractional CPU, for each of these CPUs. It then also tries to move the
// largest fraction that shares a CPU (largestSharing) to the empty CPU.
func (s *search) tryEvacuations() {
	places := s.fractional
	mark := s.mark()
	for cpu := places.First(); cpu >= 0; cpu = places.Next(cpu + 1) {
		if s.load[cpu].isClosed || int(s.load[cpu].sharers) > s.budget {
			continue
		}
		s.scratch.log = s.scratch.log[:0]
		if s.evacuate(cpu, nil) {
			s.recordIfBest()
			if large := s.largestSharing(); large >= 0 && s.tryMove(large, cpu) {
				s.recordIfBest()
			}
		}
		s.undoAll(mark)
	}
}

// distinctTargets returns the fractional CPUs to which a move of an item can lower the shared time (canHelp). from is the load of
// the item's CPU. Of CPUs with equal loads it returns only the nearest CPU, because the shared time would be the same.
func (s *search) distinctTargets(it *item, from *cpuLoad) []int16 {
	heldCPUs := s.otherCPUs(it)
	cpus := s.scratch.targets[:0]
	for cpu := s.fractional.First(); cpu >= 0; cpu = s.fractional.Next(cpu + 1) {
		to := &s.load[cpu]
		if !s.canHelp(it, from, to) || !s.canUse(it, cpu) {
			continue
		}
		if alike := s.similarTarget(to, len(cpus)); alike < 0 {
			cpus = append(cpus, int16(cpu))
		} else if s.remoteness(&heldCPUs, cpu) < s.remoteness(&heldCPUs, int(cpus[alike])) {
			cpus[alike] = int16(cpu)
		}
	}
	for _, cpu := range cpus {
		*s.loadEntry(&s.load[cpu]) = 0
	}
	s.scratch.targets = cpus
	return cpus
}

// similarTarget returns the index in targets of a CPU with the same load, or -1. After -1 the caller appends the CPU at
// index next. If flexible containers are confined to domains, equal loads do not mean equal shared time, so
// similarTarget returns -1.
func (s *search) similarTarget(to *cpuLoad, next int) int {
	if s.inDomains {
		return -1
	}
	seen := s.loadEntry(to)
	if *seen > 0 {
		return int(*seen) - 1
	}
	*seen = int16(next + 1)
	return -1
}

// loadEntry returns the entry for a CPU's load in targetByLoad.
func (s *search) loadEntry(c *cpuLoad) *int16 {
	multi := 0
	if c.sharers > 1 {
		multi = 1
	}
	return &s.scratch.targetByLoad[multi][c.used()]
}

// canHelp reports whether the move of an item between two fractional CPUs can lower the shared time. It considers only
// the loads of the CPUs, to be fast. A move that canHelp rejects could help only if it empties a CPU, which flexible
// containers can then use.
func (s *search) canHelp(it *item, from, to *cpuLoad) bool {
	if Milli(it.milli) > to.room() {
		return false
	}
	gain := Milli(0) // shared time that the move ends
	if from.sharers == 2 {
		gain = from.used() - Milli(it.milli)
	}
	if to.sharers == 1 {
		gain -= to.used()
	}
	// If fractional CPUs are lent to flexible containers (start is above multiUsed), a move can help without a gain: fewer CPUs
	// may have to be lent.
	return gain > 0 || s.start > s.tally.multiUsed
}

// freeCPUFor returns the best shared CPU for an item; -1 if there is none. It prefers CPUs of the fastest kind, then
// CPUs near the container's other CPUs, then CPUs of split cores.
func (s *search) freeCPUFor(it *item) int {
	heldCPUs := s.otherCPUs(it)
	best, bestDistance := -1, 0
	for cpu := s.free.First(); cpu >= 0; cpu = s.free.Next(cpu + 1) {
		if !s.canUse(it, cpu) {
			continue
		}
		// Prefer a CPU of a split core, so that whole cores remain whole.
		distance := 2*s.remoteness(&heldCPUs, cpu) + 8*int(s.layout.cpus[cpu].kind)
		if s.wholeCores.Contains(cpu) && s.maxThreads > 1 {
			distance++
		}
		if best < 0 || distance < bestDistance {
			best, bestDistance = cpu, distance
		}
		if distance == 0 {
			break
		}
	}
	return best
}

// leastShared returns a lower bound on the shared time of all arrangements of the fractions. A fraction that has a CPU of its own
// is not shared, but the rest of the CPU is lost to other containers. The bound is lowest if the largest fractions have CPUs of their own:
// they avoid the most shared time, and the lost rests are the smallest. The other CPUs must have room for the other fractions and for the flexible containers. This limits the number of
// fractions with a CPU of their own.
func (n *Node) leastShared() Milli {
	parts := n.tally.fractions
	rest := Milli(n.tally.open)*1000 - n.tally.room      // sum of the fractions without a CPU of their own; at first all
	if n.hasConfined() || rest != n.tally.fractionTime { // no bound with domains or closed CPUs
		return 0
	}
	others := n.sharedCount + n.tally.open // CPUs that are not reserved for a single fraction
	room := n.roomLeft()                   // room on these CPUs
	if n.flexible.count > 0 {
		others-- // flexible containers need a CPU even without guarantees
		room -= n.nodeNeed() - n.shortage
	}
	for i := len(parts) - 1; i >= 0 && others > 0; i-- {
		part := Milli(parts[i])
		if room -= 1000 - part; room < 0 {
			break
		}
		rest -= part
		others--
	}
	return rest
}
