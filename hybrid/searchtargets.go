package hybrid

// distinct returns the fractional CPUs to which moving an item may help, but of
// those that are loaded alike only the nearest: the shared time would be the same.
func (s *search) distinct(it *item, from *cpuLoad) []int16 {
	holds := s.otherCPUs(it)
	cpus := s.scratch.targets[:0]
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
	for _, cpu := range cpus {
		*s.likes(&s.load[cpu]) = 0
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
	seen := s.likes(to)
	if *seen > 0 {
		return int(*seen) - 1
	}
	*seen = int16(next + 1)
	return -1
}

// likes is where it is noted which of the targets is loaded as a CPU is.
func (s *search) likes(c *cpuLoad) *int16 {
	multi := 0
	if c.sharers > 1 {
		multi = 1
	}
	return &s.scratch.alike[multi][c.used()]
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
		gain = from.used() - Milli(it.milli)
	}
	if to.sharers == 1 {
		gain -= to.used()
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
