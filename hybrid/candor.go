package hybrid

import (
	"cmp"

	"github.com/candor-project/candor/cpuset"
)

// candorAllocate gives a new or resized sensitive container its missing CPUs under its topology policy. For a best-effort
// container, it retries without the topology policy, and finally with a view that is wider than the limit.
// On failure it returns ErrViewImpossible or ErrNoCapacity.
func (n *Node) candorAllocate(s int32) error {
	err := n.placeByTopology(s)
	if err == nil {
		return nil
	}
	if n.slots[s].Policy != BestEffort {
		return err
	}
	if policy := n.slots[s].Topology; policy != Prefer && policy != NoTopology {
		if err := n.placeByKind(s, &n.usable); err == nil {
			return nil
		}
	}
	return n.spread(s)
}

// placeByTopology gives a sensitive container its CPUs, and fails if they cannot meet its topology policy.
func (n *Node) placeByTopology(s int32) error {
	switch n.slots[s].Topology {
	case SingleNUMA:
		return n.placeInOne(s, n.numas)
	case SingleL3:
		return n.placeInOne(s, n.l3s)
	case WholeCores:
		return n.placeOnCores(s)
	default:
		return n.placeByKind(s, &n.usable)
	}
}

// placeInOne places a container in a single domain of the list: the domain with the best domainRank.
func (n *Node) placeInOne(s int32, domains []cpuset.Set) error {
	best, bestRank := -1, domainRank{}
	slot := &n.slots[s]
	heldCPUs := slot.cpus()
	for i := range domains {
		if !heldCPUs.SubsetOf(&domains[i]) {
			continue
		}
		mark := n.mark()
		rank := domainRank{oldCPUs: -n.oldCPUs.CountIn(&domains[i]), free: n.shared.CountIn(&domains[i])}
		if n.placeByKind(s, &domains[i]) == nil {
			rank.shared = int(n.sharedIfValid())
			if n.isHybrid() {
				cpus := slot.cpus()
				rank.kinds, rank.kind = n.countKinds(&cpus)
				rank.isSlow = n.slowRank(int(n.layout.cpus[cpus.First()].l3))
			}
			if best < 0 || rank.less(&bestRank) {
				best, bestRank = i, rank
			}
		}
		n.undo(mark)
	}
	if best < 0 {
		return ErrViewImpossible
	}
	return n.placeByKind(s, &domains[best])
}

// A domainRank ranks a domain for a container with the topology policy single-numa or single-l3. For each field, a
// lower value is better. The first field that differs decides. The fields kinds, kind and isSlow are 0 on a machine
// with a single kind of cores.
type domainRank struct {
	kinds   int // number of kinds of cores of the container's CPUs
	shared  int // the node's shared time
	oldCPUs int // minus the number of CPUs that the container had in the domain before a resize
	kind    int // index of the fastest of these kinds
	isSlow  int // slowRank of the container's first L3 domain
	free    int // number of shared CPUs of the domain
}

func (a *domainRank) less(b *domainRank) bool {
	return cmp.Or(cmp.Compare(a.kinds, b.kinds), cmp.Compare(a.shared, b.shared), cmp.Compare(a.oldCPUs, b.oldCPUs),
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.isSlow, b.isSlow), cmp.Compare(a.free, b.free)) < 0
}

// placeOnCores gives a new or resized container its missing CPUs in whole cores. The fraction is on a CPU
// of these cores, and no other container gets a CPU of these cores. On a hybrid machine, it takes cores of a single
// kind if possible, the fastest first.
func (n *Node) placeOnCores(s int32) error {
	slot := &n.slots[s]
	heldCPUs := slot.exclusive.Set()
	if slot.fractions() > 0 || !n.isWholeCores(&heldCPUs) { // a resized container that is not on whole cores
		return ErrViewImpossible
	}
	for _, canMove := range [...]bool{false, true} {
		for i := range n.kinds {
			if heldCPUs.SubsetOf(&n.kinds[i]) && n.placeOnCoresIn(s, &n.kinds[i], canMove) == nil {
				return nil
			}
		}
	}
	if n.placeOnCoresIn(s, &n.usable, false) == nil {
		return nil
	}
	return n.placeOnCoresIn(s, &n.usable, true)
}

// placeOnCoresIn gives a container its missing CPUs in whole cores of a domain. canMove permits moves of other
// containers' fractions.
func (n *Node) placeOnCoresIn(s int32, domain *cpuset.Set, canMove bool) error {
	slot := &n.slots[s]
	heldCPUs := slot.exclusive.Set()
	mark := n.mark()
	missing := slot.Limit.CPUs() - slot.exclusive.Count()
	if canMove && !n.clearCores(s, missing, domain) {
		return ErrViewImpossible
	}
	free := n.available().Intersect(*domain)
	picked, last, ok := n.pickCores(&free, &heldCPUs, missing)
	if ok {
		slot.wholeCores = true
		if fraction := slot.Limit % 1000; fraction > 0 {
			picked.Remove(last)
			n.give(s, last, fraction)
		}
		n.giveWhole(s, &picked)
		if n.sharedIfValid() < impossible {
			return nil
		}
	}
	n.undo(mark)
	slot.wholeCores = false
	return ErrViewImpossible
}

// giveWhole gives a container every CPU of a set exclusively.
func (n *Node) giveWhole(s int32, cpus *cpuset.Set) {
	for cpu := cpus.First(); cpu >= 0; cpu = cpus.Next(cpu + 1) {
		n.give(s, cpu, 1000)
	}
}

// place gives a sensitive container its missing whole CPUs and its missing fraction, within a domain. If they do not
// fit at present, place moves fractions of other containers.
func (n *Node) place(s int32, domain *cpuset.Set) error {
	mark := n.mark()
	if n.placeDirectly(s, domain) {
		return nil
	}
	if n.makeRoom(s, domain) && n.placeDirectly(s, domain) {
		return nil
	}
	n.undo(mark)
	return ErrViewImpossible
}

// missing returns the number of whole CPUs, and the fraction, that a container needs in addition to its CPUs.
func (n *Node) missing(s int32) (whole int, fraction Milli) {
	slot := &n.slots[s]
	whole = int(slot.Limit/1000) - slot.exclusive.Count()
	if slot.fractions() == 0 {
		fraction = slot.Limit % 1000
	}
	return whole, fraction
}

// placeDirectly tries to place a container like n.place, but never moves fractions of other containers.
func (n *Node) placeDirectly(s int32, domain *cpuset.Set) bool {
	whole, fraction := n.missing(s)
	free := n.available()
	if domain != &n.usable {
		free = free.Intersect(*domain)
	}
	spare := free.Count() - whole
	if spare < 0 {
		return false
	}
	mark := n.mark()
	alone := -1 // a shared CPU on which the fraction would be alone; -1: none
	switch {
	case fraction == 0 || spare == 0:
		n.giveBest(s, &free, whole)
	case free.Contains(n.oldFraction):
		alone = n.oldFraction
		free.Remove(alone)
		n.giveBest(s, &free, whole)
	default:
		alone = n.giveBest(s, &free, whole+1)
		n.take(s, alone)
	}
	if fraction > 0 && !n.placeFraction(s, fraction, alone, domain) || n.sharedIfValid() == impossible {
		n.undo(mark)
		return false
	}
	return true
}

// giveBest gives a container the given number of whole CPUs from the set free: first the CPUs that the container
// had before a resize, then the best CPUs by topology. It returns the CPU that it chose last.
func (n *Node) giveBest(s int32, free *cpuset.Set, count int) (last int) {
	slot := &n.slots[s]
	if free.Overlaps(&n.oldCPUs) {
		first := free.Intersect(n.oldCPUs).Lowest(count)
		n.giveWhole(s, &first)
		free.RemoveAll(&first)
		if count -= first.Count(); count == 0 {
			return first.Last()
		}
	}
	heldCPUs := slot.cpus()
	picked, last := n.pick(free, &heldCPUs, count, slot.Topology)
	n.giveWhole(s, &picked)
	return last
}

// placeFraction puts a fraction on the CPU with which the node's shared time is lowest. The candidates are the fractional CPUs of
// the domain and, if the parameter "alone" is not -1, the CPU with this id, which has no fraction yet. If two fractional CPUs
// lead to the same shared time, isNearer decides. placeFraction reports whether a candidate had room.
func (n *Node) placeFraction(s int32, fraction Milli, alone int, domain *cpuset.Set) bool {
	best, bestCost := -1, impossible
	if alone >= 0 {
		before := n.sharedIfValid()
		bestCost = n.costOf(s, alone, fraction)
		if bestCost <= before && bestCost < impossible {
			n.give(s, alone, fraction)
			return true
		}
		if bestCost < impossible {
			best = alone
		}
	}
	slot := &n.slots[s]
	heldCPUs := slot.cpus()
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		if !domain.Contains(cpu) || n.load[cpu].room() < fraction || slot.fractionOn(cpu) > 0 {
			continue
		}
		cost := n.costOf(s, cpu, fraction)
		if cost < bestCost || cost == bestCost && cost < impossible && n.isNearer(&heldCPUs, cpu, best) {
			best, bestCost = cpu, cost
		}
	}
	if best < 0 {
		return false
	}
	n.give(s, best, fraction)
	return true
}

// costOf returns the shared time that the node would have with this fraction of the container on the CPU.
func (n *Node) costOf(s int32, cpu int, fraction Milli) Milli {
	mark := n.mark()
	n.give(s, cpu, fraction)
	cost := n.sharedIfValid()
	n.undo(mark)
	return cost
}

// isNearer compares two CPUs, the parameters cpu and other. It reports whether cpu is nearer to the CPUs in heldCPUs
// or, if both are equally near, whether cpu is fuller. The CPU of the fraction before a resize counts as the nearest.
// If other is negative, isNearer reports true.
func (n *Node) isNearer(heldCPUs *cpuset.Set, cpu, other int) bool {
	if other < 0 {
		return true
	}
	if cpu == n.oldFraction || other == n.oldFraction {
		return cpu == n.oldFraction
	}
	if a, b := n.remoteness(heldCPUs, cpu), n.remoteness(heldCPUs, other); a != b {
		return a < b
	}
	return n.load[cpu].used() > n.load[other].used()
}

// remoteness returns the distance of a CPU to the CPUs in heldCPUs: 0 if heldCPUs is empty or has CPUs in the same L3
// domain, 1 if it has CPUs in the same NUMA node, and 2 otherwise.
func (n *Node) remoteness(heldCPUs *cpuset.Set, cpu int) int {
	loc := n.layout.cpus[cpu]
	switch {
	case heldCPUs.IsEmpty() || heldCPUs.Overlaps(&n.l3s[loc.l3]):
		return 0
	case heldCPUs.Overlaps(&n.numas[loc.numa]):
		return 1
	default:
		return 2
	}
}

// spread gives a best-effort container its missing CPU time, even if the view becomes wider than the limit. The container gets as many
// whole CPUs as possible, and the rest as fractions. Each fraction goes to the shared or fractional CPU with the most room.
func (n *Node) spread(s int32) error {
	mark := n.mark()
	slot := &n.slots[s]
	free := n.available()
	heldCPUs := slot.cpus()
	whole, fraction := n.missing(s)
	rest := Milli(whole)*1000 + fraction
	take := min(whole, free.Count())
	for ; take >= 0; take-- {
		picked, _ := n.pick(&free, &heldCPUs, take, slot.Topology)
		n.giveWhole(s, &picked)
		remaining := free.Minus(picked)
		if n.fill(s, rest-Milli(take)*1000, &remaining) && n.sharedIfValid() < impossible {
			return nil
		}
		n.undo(mark)
	}
	return ErrNoCapacity
}

// fill divides an amount among the fractional CPUs and the CPUs of the set free, the emptiest first. Each CPU takes
// as much as fits, but at most 999m. fill reports whether the CPUs have room for the whole amount.
func (n *Node) fill(s int32, amount Milli, free *cpuset.Set) bool {
	candidates := n.fractional.Set().Union(*free)
	for amount > 0 {
		best := -1
		for cpu := candidates.First(); cpu >= 0; cpu = candidates.Next(cpu + 1) {
			if n.load[cpu].room() > 0 && n.slots[s].fractionOn(cpu) == 0 &&
				(best < 0 || n.load[cpu].room() > n.load[best].room()) {
				best = cpu
			}
		}
		if best < 0 {
			return false
		}
		part := min(amount, n.load[best].room(), 999)
		n.give(s, best, part)
		amount -= part
	}
	return true
}

// candorResize adjusts a sensitive container's CPUs to its new limit. The container retains as many of its
// CPUs as possible. A container whose limit grows loses no exclusive CPU.
func (n *Node) candorResize(s int32) error {
	slot := &n.slots[s]
	if slot.wholeCores {
		mark := n.mark()
		err := n.resizeCores(s)
		if err == nil || slot.Policy == Strict {
			return err
		}
		n.undo(mark)
		slot.wholeCores = false // the best-effort container continues without its topology policy
	}
	isSplit := slot.Topology == SingleL3 && slot.Policy == Strict && !n.meetsTopology(slot)
	n.oldCPUs = slot.cpus()
	n.oldFraction = n.takeFractions(s)
	part, mark := slot.Limit%1000, n.mark()
	keepsFraction := slot.Immovable && n.oldFraction >= 0 && part > 0 && n.load[n.oldFraction].room() >= part
	if keepsFraction {
		n.give(s, n.oldFraction, part)
	}
	whole := int(slot.Limit / 1000)
	canGrow := keepsFraction && slot.exclusive.Count() <= whole
	for slot.exclusive.Count() > whole {
		n.take(s, n.leastUsefulCPU(s))
	}
	err := n.candorAllocate(s)
	if err == nil && (!canGrow || n.seesLimit(s)) {
		return nil
	}
	if err != nil && isSplit && slot.Limit.CPUs() <= n.oldCPUs.Count() {
		// The CPUs of this strict container are in several L3 domains. They were a single L3 domain when the container got them,
		// because an older version of Candor or other kinds of cores divided the CPUs differently. If the container needs no more
		// CPUs than before, it may stay in all of its present L3 domains.
		domain := n.l3sOf(&n.oldCPUs)
		return n.placeByKind(s, &domain)
	}
	if canGrow {
		return n.growOnFraction(s, mark, err)
	}
	return err
}

// growOnFraction resizes a container whose first resize, which left the immovable fraction unchanged, gave an error or a view
// wider than the limit. err is the result of that resize, and mark is the state without a fraction. growOnFraction tries to give
// the container more time on the CPU of the fraction, for example the whole CPU, and puts the fraction on another CPU. If this is
// not better, growOnFraction returns err or, if err is nil, repeats the first resize.
func (n *Node) growOnFraction(s int32, mark int, err error) error {
	slot := &n.slots[s]
	n.undo(mark)
	isBetter := n.candorAllocate(s) == nil && (err != nil || n.seesLimit(s))
	// The container must not lose the CPU of the fraction, because threads can be pinned to this CPU.
	if cpus := slot.cpus(); isBetter && cpus.Contains(n.oldFraction) {
		return nil
	}
	n.undo(mark)
	slot.wholeCores = false
	if err != nil {
		return err
	}
	n.give(s, n.oldFraction, slot.Limit%1000)
	return n.candorAllocate(s)
}

// l3sOf returns all CPUs of the L3 domains of a set of CPUs.
func (n *Node) l3sOf(cpus *cpuset.Set) (domain cpuset.Set) {
	for i := range n.l3s {
		if n.l3s[i].Overlaps(cpus) {
			domain.AddAll(&n.l3s[i])
		}
	}
	return domain
}

// leastUsefulCPU returns the exclusive CPU that the container should lose first. It chooses the NUMA node where the container has the
// fewest exclusive CPUs. By the same rule, it then chooses an L3 domain in this node, and a core in this domain. Of equal CPUs, it returns
// the CPU with the highest id.
func (n *Node) leastUsefulCPU(s int32) int {
	heldCPUs := n.slots[s].exclusive.Set()
	best, bestKey := -1, [3]int{}
	for cpu := heldCPUs.First(); cpu >= 0; cpu = heldCPUs.Next(cpu + 1) {
		loc := n.layout.cpus[cpu]
		key := [3]int{heldCPUs.CountIn(&n.numas[loc.numa]), heldCPUs.CountIn(&n.l3s[loc.l3]), heldCPUs.CountIn(&n.cores[loc.core])}
		if best < 0 || !isLessKey(&bestKey, &key) {
			best, bestKey = cpu, key
		}
	}
	return best
}

// resizeCores resizes a container that is on whole cores and must stay on whole cores.
func (n *Node) resizeCores(s int32) error {
	slot := &n.slots[s]
	last := -1
	for slot.fractions() > 0 { // the fraction becomes a whole CPU for now, because no other container uses the core
		last = int(slot.first.cpu)
		n.take(s, last)
		n.give(s, last, 1000)
	}
	count, fraction := slot.Limit.CPUs(), slot.Limit%1000
	shrinks, grows := slot.exclusive.Count() > count, slot.exclusive.Count() < count
	last = n.dropCores(s, count, last, fraction == 0)
	if missing := count - slot.exclusive.Count(); missing != 0 {
		free, heldCPUs := n.available(), slot.exclusive.Set()
		picked, lastPicked, ok := n.pickCores(&free, &heldCPUs, missing)
		if !ok || shrinks { // a container that shrinks cannot get other cores instead, because exclusive CPUs never move
			return ErrViewImpossible
		}
		n.giveWhole(s, &picked)
		if last < 0 {
			last = lastPicked
		}
	}
	if fraction > 0 {
		if last < 0 {
			heldCPUs := slot.exclusive.Set()
			last = heldCPUs.Last()
		}
		n.take(s, last)
		n.give(s, last, fraction)
	}
	cpus := slot.cpus()
	// A core of the container may have lost a CPU. Then the container cannot grow.
	if n.sharedIfValid() == impossible || grows && !n.isWholeCores(&cpus) {
		return ErrViewImpossible
	}
	return nil
}

// dropCores takes whole cores from a container until at most the given number of CPUs remains. last is the CPU that
// had the fraction before, or -1. If lastFirst is true, dropCores first takes the core of this CPU. It returns last,
// or -1 if the container does not have this CPU anymore.
func (n *Node) dropCores(s int32, count, last int, lastFirst bool) int {
	slot := &n.slots[s]
	for slot.exclusive.Count() > count {
		cpu := n.leastUsefulCPU(s)
		if lastFirst && last >= 0 { // so that all remaining CPUs were exclusive before the resize
			cpu = last
		}
		core := n.layout.cpus[cpu].core
		if last >= 0 && n.cores[core].Contains(last) {
			last = -1
		}
		for _, sibling := range n.siblings[core] {
			n.take(s, int(sibling))
		}
	}
	return last
}
