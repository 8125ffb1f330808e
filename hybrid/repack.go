package hybrid

import (
	"github.com/candor-project/candor/cpuset"
)

// Repacking rearranges all movable fractions of a domain. It can succeed when single moves fail, but it needs more
// moves.

// maxRepacked is the maximum number of fractions to repack. With more fractions, the search for a packing takes too
// long.
const maxRepacked = 128

// repackFor rearranges the fractions of a domain so that a container's whole CPUs and fraction fit. It reports
// whether it succeeded; on failure nothing has changed.
func (n *Node) repackFor(domain *cpuset.Set, whole int, fraction Milli) bool {
	p := &n.scratch.pack
	free := n.available().Intersect(*domain)
	open := n.openWithin(domain).Minus(n.shared.Set())
	bins := open.Count() + free.Count() - whole
	if bins <= 0 || !n.startPacking(bins, domain) {
		return false
	}
	if fraction > 0 {
		p.items = append(p.items, packItem{milli: int32(fraction), item: newFraction})
	}
	p.sort()
	return p.solve(0, n.packTries()) && n.applyPacking(0, n.options.RescueMoves, domain)
}

func (n *Node) packTries() int {
	if n.options.RescueMoves >= AnyMoves {
		return packTriesAny
	}
	return packTries
}

// startPacking fills the packer with the movable items of a domain and the given number of bins. The first bins
// are the CPUs of items that must stay. startPacking reports false if there are too few bins for these CPUs, or
// more than maxRepacked movable items.
func (n *Node) startPacking(bins int, domain *cpuset.Set) bool {
	p := &n.scratch.pack
	p.items, p.room, p.cpus = p.items[:0], p.room[:0], p.cpus[:0]
	for i := range n.scratch.items {
		if it := &n.scratch.items[i]; !n.isFixed(it) && domain.Contains(int(it.cpu)) {
			p.items = append(p.items, packItem{milli: int32(it.milli), item: int32(i)})
		}
	}
	if len(p.items) > maxRepacked {
		return false
	}
	for i := range n.scratch.items {
		it := &n.scratch.items[i]
		if !n.isFixed(it) || n.load[it.cpu].isClosed || !domain.Contains(int(it.cpu)) {
			continue
		}
		bin := 0
		for bin < len(p.cpus) && p.cpus[bin] != it.cpu {
			bin++
		}
		if bin == len(p.cpus) {
			p.cpus, p.room = append(p.cpus, it.cpu), append(p.room, 1000)
		}
		p.room[bin] -= int32(it.milli)
	}
	if len(p.cpus) > bins {
		return false
	}
	for len(p.cpus) < bins {
		p.cpus, p.room = append(p.cpus, -1), append(p.room, 1000)
	}
	return true
}

// isFixed reports whether repacking must leave an item on its CPU. The items of a container with several fractions
// must stay, because the packer could put two of them on the same CPU.
func (n *Node) isFixed(it *item) bool {
	return it.isPinned || n.slots[it.slot].fractions() > 1
}

// applyPacking moves the items to the CPUs of their bins in the packer's solution. The packer has left out the first items, as many
// as the parameter alone: each of them gets a CPU of its own. applyPacking reports whether the moves are permitted and within the budget; on
// failure nothing has changed.
func (n *Node) applyPacking(alone, budget int, domain *cpuset.Set) bool {
	p := &n.scratch.pack
	for i := range alone {
		p.items[i].bin = int32(len(p.cpus))
		p.cpus = append(p.cpus, -1)
	}
	n.assignCPUs(domain)
	logged, mark := len(n.scratch.log), n.mark()
	for i := range p.items {
		if it := p.items[i].item; it != newFraction && n.scratch.items[it].cpu != p.cpus[p.items[i].bin] {
			n.scratch.log = append(n.scratch.log, step{it, n.scratch.items[it].cpu})
		}
	}
	moved := n.scratch.log[logged:]
	for _, m := range moved {
		n.take(n.scratch.items[m.item].slot, int(m.cpu))
	}
	ok := n.countMoves(n.scratch.log) <= budget
	for i := range p.items {
		it := p.items[i].item
		if it == newFraction || n.scratch.items[it].cpu == p.cpus[p.items[i].bin] {
			continue
		}
		to := int(p.cpus[p.items[i].bin])
		if to < 0 || !n.canUse(&n.scratch.items[it], to) {
			ok = false
			break
		}
		n.give(n.scratch.items[it].slot, to, Milli(n.scratch.items[it].milli))
		n.scratch.items[it].cpu = int16(to)
	}
	if !ok {
		n.undoMoves(logged, mark)
	}
	return ok
}

// assignCPUs assigns a CPU to each bin: the CPU that already has the most items of the bin, if no other bin has this
// CPU. Otherwise it assigns a shared or vacated CPU of the domain, the nearest to the container of an item in the bin.
func (n *Node) assignCPUs(domain *cpuset.Set) {
	p := &n.scratch.pack
	taken, fractional := n.exclusive.Set(), n.fractional.Set()
	for _, cpu := range p.cpus {
		if cpu >= 0 {
			taken.Add(int(cpu))
		}
	}
	for _, a := range p.affinities(n.scratch.items) {
		if p.cpus[a.bin] < 0 && !taken.Contains(int(a.cpu)) {
			p.cpus[a.bin] = a.cpu
			taken.Add(int(a.cpu))
		}
	}
	free := n.available().Union(n.openWithin(&fractional)).Intersect(*domain).Minus(taken)
	for b := range p.cpus {
		if i := p.itemIn(int32(b)); p.cpus[b] < 0 && i >= 0 {
			cpu := n.nearest(&n.scratch.items[i], &free)
			p.cpus[b] = int16(cpu)
			if cpu >= 0 {
				free.Remove(cpu)
			}
		}
	}
}

// nearest returns the CPU of a set that is nearest to the other CPUs of an item's container; -1 if the set is empty.
func (n *Node) nearest(it *item, cpus *cpuset.Set) int {
	heldCPUs := n.otherCPUs(it)
	best, bestDistance := -1, 0
	for cpu := cpus.First(); cpu >= 0; cpu = cpus.Next(cpu + 1) {
		if distance := n.remoteness(&heldCPUs, cpu); best < 0 || distance < bestDistance {
			best, bestDistance = cpu, distance
		}
	}
	return best
}

// improveByRepacking rearranges all movable fractions to lower the shared time. As many of the largest fractions as
// possible get a CPU of their own. The other fractions share CPUs with each other and with the flexible containers.
// improveByRepacking returns the number of moves, at most budget.
func (n *Node) improveByRepacking(own int32, shared Milli, budget int) int {
	if budget <= 0 || shared == 0 || n.hasConfined() {
		return 0
	}
	n.collectItems(own)
	bins := int(n.tally.open + n.sharedCount)
	p := &n.scratch.pack
	if !n.startPacking(bins, &n.usable) {
		return 0
	}
	p.sort()
	need := Milli(0) // time that flexible containers need on the CPUs of the packed items
	if n.flexible.count > 0 {
		need = n.nodeNeed()
	}
	var rest, room Milli // sum of the packed items, and room of their bins
	for i := range p.items {
		rest += Milli(p.items[i].milli)
	}
	for _, r := range p.room {
		room += Milli(r)
	}
	alone := min(len(p.items), bins)
	for i := range alone {
		rest -= Milli(p.items[i].milli)
		room -= 1000
	}
	for ; alone > 0 && rest < shared; alone-- {
		if rest+need <= room && n.packAllBut(alone, bins) && n.applyPacking(alone, budget, &n.usable) {
			if n.sharedIfValid() < shared {
				return n.countMoves(n.scratch.log)
			}
			n.undoMoves(0, n.packMark())
		}
		rest += Milli(p.items[alone-1].milli)
		room += 1000
	}
	return 0
}

// packMark returns the mark before the edits of the logged moves. Each move has two edits.
func (n *Node) packMark() int { return len(n.edits) - 2*len(n.scratch.log) }

// packAllBut packs all items except the largest, which get bins of their own; alone is the number of these items. The
// caller has checked that the room suffices. At least one bin must remain if the node has flexible containers.
func (n *Node) packAllBut(alone, bins int) bool {
	p := &n.scratch.pack
	fits := n.startPacking(bins-alone, &n.usable)
	p.sort() // even on failure, because the caller continues with the sizes of these items
	if !fits || n.flexible.count > 0 && len(p.room) == 0 {
		return false
	}
	return p.solve(alone, n.packTries())
}

// The functions below compute an upper bound on the limit of a sensitive container that fits on the node after any number of moves.
// Fractions on CPUs are items in bins, so a lower bound on the number of bins applies to every arrangement. This lower bound is L2 of
// Martello and Toth ("Lower bounds and a reduction procedure for the bin packing problem", 1990): each item above half a bin needs a bin of
// its own. The small items fill the remaining room of these bins, and need further bins for the rest.

// boundItems is the maximum number of fractions for which maxStrictLimit computes the bound.
const boundItems = 48

// An itemList is a list of fraction sizes in descending order.
type itemList struct {
	count int
	size  [boundItems + 1]int32
}

// insert adds a size.
func (l *itemList) insert(size int32) {
	i := l.count
	for ; i > 0 && l.size[i-1] < size; i-- {
		l.size[i] = l.size[i-1]
	}
	l.size[i] = size
	l.count++
}

// remove removes a size, which must be in the list.
func (l *itemList) remove(size int32) {
	l.count--
	next := l.size[l.count]
	for i := l.count - 1; next != size; i-- {
		next, l.size[i] = l.size[i], next
	}
}

// minBins returns a lower bound on the number of CPUs that the items need.
func (l *itemList) minBins() int32 {
	large := int32(0) // items above half a CPU
	for large < int32(l.count) && l.size[large] > 500 {
		large++
	}
	bound, small := large, int32(0)
	joined, sum := int32(0), int32(0) // number and sum of the large items whose bins have room for item i
	for i := int(large); i < l.count; i++ {
		small += l.size[i]
		if i+1 < l.count && l.size[i+1] == l.size[i] {
			continue
		}
		// This bound leaves out the items after item i, which are smaller, and the bins of large items without room for item i.
		for ; joined < large && l.size[large-1-joined] <= 1000-l.size[i]; joined++ {
			sum += l.size[large-1-joined]
		}
		if rest := small - (joined*1000 - sum); rest > 0 {
			bound = max(bound, large+(rest+999)/1000)
		}
	}
	return bound
}

// maxStrictLimit returns an upper bound on the limit of a strict sensitive container that fits on the node after any
// number of moves. It applies to containers without a confining topology policy. It ignores the node's CPU time.
func (n *Node) maxStrictLimit() Milli {
	if len(n.tally.fractions) > boundItems {
		return n.total
	}
	t := &n.tally
	if t.packBins < 0 {
		t.packBins, t.packRoom = packBound(t.fractions)
	}
	open := n.sharedCount + int32(n.fractional.Count()) // including closed CPUs, whose fractions are in tally.fractions
	return Milli(max(0, open-t.packBins))*1000 + Milli(t.packRoom)
}

// packSteps is the precision of the fraction size that packBound returns, in milli-CPU.
const packSteps = 8

// packBound returns a lower bound on the number of CPUs that the fractions need. It also returns a fraction size: with
// an additional fraction above this size, the fractions need more CPUs. parts is in ascending order.
func packBound(parts []int16) (bins, room int32) {
	items, used := itemList{count: len(parts)}, int32(0)
	for i, part := range parts {
		items.size[len(parts)-1-i] = int32(part)
		used += int32(part)
	}
	bins = items.minBins()
	rest := min(bins*1000-used, 1000)
	all := items.canFit(rest, bins)    // usually the additional fraction can use all remaining room
	low, high := int32(0), int32(1000) // bisection: the bins suffice for a fraction of size low
	for high-low > packSteps {
		middle := (low + high) / 2
		if middle <= rest && (all || items.canFit(middle, bins)) {
			low = middle
		} else {
			high = middle
		}
	}
	return bins, high - 1
}

// canFit reports whether the bound permits the items and another item in this number of bins.
func (l *itemList) canFit(size, bins int32) bool {
	l.insert(size)
	fits := l.minBins() <= bins
	l.remove(size)
	return fits
}
