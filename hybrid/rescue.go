package hybrid

import "github.com/candor-project/candor/cpuset"

// makeRoom moves fractions of other containers so that a container's missing CPUs fit into a domain.
// It reports whether it succeeded; if not, the caller undoes the moves.
func (n *Node) makeRoom(s int32, domain *cpuset.Set) bool {
	if n.options.RescueMoves < 0 || n.tally.open == 0 {
		return false
	}
	whole, fraction := n.missing(s)
	n.collectItems(s)
	mark := n.mark()
	if n.clearCPUs(domain, whole, fraction) {
		return true
	}
	n.undoMoves(0, mark)
	return n.repackFor(domain, whole, fraction)
}

// clearCPUs moves fractions off CPUs of a domain until the domain has enough shared CPUs and room for the fraction. It
// reports whether it succeeded.
func (n *Node) clearCPUs(domain *cpuset.Set, whole int, fraction Milli) bool {
	for {
		free := n.available().Intersect(*domain)
		needed := whole
		if fraction > 0 && !n.hasRoom(domain, fraction) {
			needed++
		}
		if free.Count() >= needed {
			return n.countMoves(n.scratch.log) <= n.options.RescueMoves
		}
		if free.Count() >= whole && n.makeHole(domain, fraction) {
			continue
		}
		if !n.clearOne(domain) {
			return false
		}
	}
}

// hasRoom reports whether a fractional CPU of a domain has room for a fraction.
func (n *Node) hasRoom(domain *cpuset.Set, fraction Milli) bool {
	inside := n.fractional.Set().Intersect(*domain)
	for cpu := inside.First(); cpu >= 0; cpu = inside.Next(cpu + 1) {
		if n.load[cpu].room() >= fraction {
			return true
		}
	}
	return false
}

// clearOne moves all fractions off a fractional CPU of a domain. It tries the CPUs with the fewest fractions first, and among
// these the least loaded CPU. It reports whether it succeeded.
func (n *Node) clearOne(domain *cpuset.Set) bool {
	var tried cpuset.Set
	for {
		best := -1
		for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
			c := &n.load[cpu]
			if !domain.Contains(cpu) || tried.Contains(cpu) || c.isClosed {
				continue
			}
			if best < 0 || c.sharers < n.load[best].sharers ||
				c.sharers == n.load[best].sharers && c.used() < n.load[best].used() {
				best = cpu
			}
		}
		if best < 0 {
			return false
		}
		tried.Add(best)
		logged, mark := len(n.scratch.log), n.mark()
		elsewhere := n.available().Minus(*domain)
		if n.evacuate(best, &elsewhere) {
			return true
		}
		n.undoMoves(logged, mark)
	}
}

// makeHole moves another container's fraction from a fractional CPU of the domain to another fractional CPU, so that a fraction of the
// given size fits on the first CPU. It moves the smallest fraction that suffices, and reports whether it succeeded.
func (n *Node) makeHole(domain *cpuset.Set, fraction Milli) bool {
	best, bestTo := int32(-1), -1
	fractional := n.fractional.Set()
	for i := range n.scratch.items {
		it := &n.scratch.items[i]
		if it.isPinned || it.isOwn || !domain.Contains(int(it.cpu)) ||
			n.load[it.cpu].room()+Milli(it.milli) < fraction ||
			best >= 0 && it.milli >= n.scratch.items[best].milli {
			continue
		}
		if to := n.bestFit(it, &fractional); to >= 0 {
			best, bestTo = int32(i), to
		}
	}
	if best < 0 {
		return false
	}
	n.move(best, bestTo)
	return true
}

// clearCores moves fractions off cores of a domain until whole free cores with the given number of CPUs are available there. It leaves
// cores with an exclusive CPU unchanged. It reports whether it succeeded. If not, nothing has changed.
func (n *Node) clearCores(s int32, count int, domain *cpuset.Set) bool {
	if n.options.RescueMoves < 0 {
		return false
	}
	n.collectItems(s)
	start := n.mark()
	for i := range n.cores {
		free := n.available()
		inside := free.Intersect(*domain)
		if _, _, ok := n.pickCores(&inside, &cpuset.Set{}, count); ok {
			break
		}
		core := &n.cores[i]
		if !n.fractional.Overlaps(core) || n.exclusive.Overlaps(core) || n.partial.Overlaps(core) || !core.SubsetOf(domain) {
			continue
		}
		logged, mark := len(n.scratch.log), n.mark()
		if !n.clearCore(core, &free) {
			n.undoMoves(logged, mark)
		}
	}
	inside := n.available().Intersect(*domain)
	if _, _, ok := n.pickCores(&inside, &cpuset.Set{}, count); ok && n.countMoves(n.scratch.log) <= n.options.RescueMoves {
		return true
	}
	n.undoMoves(0, start)
	return false
}

// clearCore moves every fraction off a core, to other fractional CPUs or to free CPUs of split cores.
func (n *Node) clearCore(core, free *cpuset.Set) bool {
	split := free.Minus(n.wholeCores.Set())
	for cpu := core.First(); cpu >= 0; cpu = core.Next(cpu + 1) {
		for n.load[cpu].sharers > 0 {
			i := n.itemOn(cpu)
			if i < 0 {
				return false
			}
			candidates := n.fractional.Set().Union(split).Minus(*core)
			to := n.bestFit(&n.scratch.items[i], &candidates)
			if to < 0 {
				return false
			}
			n.move(i, to)
		}
	}
	return true
}

// itemOn returns a movable item on a CPU, or -1.
func (n *Node) itemOn(cpu int) int32 {
	for i := range n.scratch.items {
		if it := &n.scratch.items[i]; int(it.cpu) == cpu && !it.isPinned {
			return int32(i)
		}
	}
	return -1
}
