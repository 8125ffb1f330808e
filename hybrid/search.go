package hybrid

import "github.com/candor-project/candor/cpuset"

// A search looks for the few moves, done together, that lower the shared time most.
type search struct {
	*Node
	start  Milli // shared time now
	best   Milli // the least that was found
	least  Milli // no arrangement has less
	moves  int   // what that takes
	budget int
	tries  int        // arrangements that may still be looked at
	free   cpuset.Set // shared CPUs that sensitive containers may use

	ownItems  int  // of the container that the plan is for
	inDomains bool // flexible containers have domains of their own
}

// searchTries bounds how many arrangements a search looks at on nodes with hundreds of fractions; on one
// with 64 CPUs a search ends by itself. The walk over fractions and CPUs that finds them is not counted.
const searchTries = 2_000

func (s *search) run() {
	s.free, s.inDomains = s.available(), s.anyDomain()
	s.tries = searchTries
	if s.inDomains {
		s.tries /= 4 // to look at one takes longer
	}
	s.scratch.best = s.scratch.best[:0]
	for i := range s.scratch.items {
		if s.scratch.items[i].own {
			s.ownItems++
		}
	}
	s.singleMoves()
	if s.budget >= 2 && !s.isDone() {
		s.swaps()
		s.evacuations()
	}
}

// isDone reports whether nothing better than what was found can be: more moves at once are
// no better than one, unless they are all of the plan's own container.
func (s *search) isDone() bool { return s.best == s.least && s.moves <= 1 && s.ownItems <= 1 }

// isBetter reports whether an arrangement is better than what was found.
func (s *search) isBetter(shared Milli, moves int) bool {
	return shared < s.best && moves <= s.budget || shared == s.best && shared < s.start && moves < s.moves
}

// consider notes the moves made since the first logged ones if they are the best.
func (s *search) consider() {
	shared := s.settle()
	if shared > s.best {
		return
	}
	moves := s.price(s.scratch.log)
	if !s.isBetter(shared, moves) {
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

// sharedIf returns the shared time if an item were on another CPU.
func (s *search) sharedIf(it *item, cpu int) Milli {
	if s.inDomains {
		mark := s.mark()
		s.take(it.slot, int(it.cpu))
		s.give(it.slot, cpu, Milli(it.milli))
		shared := s.settle()
		s.undo(mark)
		return shared
	}
	from, to := &s.load[it.cpu], &s.load[cpu]
	s.shift(from, to, Milli(it.milli))
	shared := s.settle()
	s.shift(to, from, Milli(it.milli))
	return shared
}

// shift moves time from one CPU to another in the sums only, as one grant's.
func (s *search) shift(from, to *cpuLoad, milli Milli) {
	s.uncount(from)
	s.uncount(to)
	from.milli, from.sharers = from.milli-int16(milli), from.sharers-1
	to.milli, to.sharers = to.milli+int16(milli), to.sharers+1
	s.count(from)
	s.count(to)
}

// count counts a CPU in that is shared or fractional; uncount counts it out.
func (s *search) count(c *cpuLoad) {
	if c.sharers == 0 {
		s.sharedCount++
	} else {
		s.tally.add(c)
	}
}

func (s *search) uncount(c *cpuLoad) {
	if c.sharers == 0 {
		s.sharedCount--
	} else {
		s.tally.remove(c)
	}
}
