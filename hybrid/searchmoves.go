package hybrid

// singleMoves tries to move each fraction to each other fractional CPU and to a
// CPU of its own.
func (s *search) singleMoves() {
	for i := range s.scratch.items {
		it := &s.scratch.items[i]
		if it.pinned || s.isDone() && !it.own {
			continue
		}
		from := s.load[it.cpu]
		if from.sharers > 1 {
			if cpu := s.freeCPUFor(it); cpu >= 0 {
				s.single(int32(i), cpu)
			}
		}
		for _, cpu := range s.distinct(it, &from) {
			s.single(int32(i), int(cpu))
		}
	}
}

// single looks at one move, which is allowed.
func (s *search) single(i int32, cpu int) {
	if s.tries == 0 {
		return
	}
	s.tries--
	it := &s.scratch.items[i]
	moves := 1
	if it.own {
		moves = 0
	}
	if shared := s.sharedIf(it, cpu); s.isBetter(shared, moves) {
		s.best, s.moves = shared, moves
		s.scratch.best = append(s.scratch.best[:0], step{i, int16(cpu)})
	}
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
