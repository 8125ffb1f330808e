package hybrid

import (
	"github.com/candor-project/candor/cpuset"
)

// pick chooses the given number of CPUs from the set free by topology. The preferences, in this order, are: fewest
// kinds of cores (pickByKind), fewest NUMA nodes, fewest L3 domains, fast L3 domains, fewest split cores, domains with
// few free CPUs, lowest CPU ids. If the set near is not empty, domains with CPUs of this set come first. last is the
// CPU that was chosen last; if the container has a fraction, the fraction should be on this CPU. The set free must
// contain enough CPUs.
func (n *Node) pick(free *cpuset.Set, near *cpuset.Set, count int, policy TopologyPolicy) (picked cpuset.Set, last int) {
	if count == 0 {
		return picked, -1
	}
	if policy == NoTopology {
		picked = free.Lowest(count)
		return picked, picked.Last()
	}
	if n.isHybrid() {
		return n.pickByKind(free, near, count)
	}
	return n.pickFrom(free, near, count, n.maxThreads)
}

// pickFrom chooses CPUs like n.pick, but ignores the kinds of cores. threads is the maximum number of usable CPUs on a
// core.
func (n *Node) pickFrom(free, near *cpuset.Set, count, threads int) (picked cpuset.Set, last int) {
	p := picker{Node: n, free: free, near: near, threads: threads, taken: &picked, last: -1}
	p.isFirst = near.IsEmpty()
	p.canUseCounts = *free == n.shared.Set()
	p.choose(count)
	return picked, p.last
}

// A picker holds the state of a call of pickFrom.
type picker struct {
	*Node
	free, near   *cpuset.Set // arguments of pickFrom
	threads      int
	taken        *cpuset.Set // CPUs chosen so far
	last         int
	isFirst      bool // the container has no CPU yet
	canUseCounts bool // free is the shared pool and taken is empty, so that Node.inL3 and Node.inNUMA count the free CPUs
}

// choose takes the given number of CPUs.
func (p *picker) choose(count int) {
	if l3 := p.bestL3(count, nil); l3 >= 0 {
		p.takeFrom(&p.l3s[l3], count)
		return
	}
	if numa := p.bestNUMA(count); numa >= 0 {
		p.takeFromNUMA(numa, count)
		return
	}
	// No NUMA node has enough free CPUs. Take all free CPUs of NUMA nodes until the rest fits into a single node.
	var used cpuset.Set
	for numa := p.firstNUMA(count); count > 0 && numa >= 0; numa = p.nextNUMA(count, &used) {
		part := min(count, p.freeIn(&p.numas[numa]))
		p.takeFromNUMA(numa, part)
		used.AddAll(&p.numas[numa])
		count -= part
	}
}

// freeIn counts the free CPUs of a domain, without the CPUs that are taken.
func (p *picker) freeIn(domain *cpuset.Set) int {
	return p.free.CountIn(domain) - p.taken.CountIn(domain)
}

func (p *picker) freeInL3(i int) int {
	if p.canUseCounts {
		return int(p.inL3[i].free)
	}
	return p.freeIn(&p.l3s[i])
}

func (p *picker) freeInNUMA(i int) int {
	if p.canUseCounts {
		return int(p.inNUMA[i].free)
	}
	return p.freeIn(&p.numas[i])
}

// wholeInNUMA counts the free CPUs of a NUMA node on whole free cores.
func (p *picker) wholeInNUMA(i int) int {
	if !p.isHybrid() {
		return int(p.inNUMA[i].whole)
	}
	kind := p.free.Intersect(p.numas[i])
	return p.wholeCores.CountIn(&kind)
}

// A fit ranks a domain that has enough free CPUs. For each field, a lower value is better. The first field that differs
// decides.
type fit struct {
	isFar      int // 0 if the container has CPUs in the domain, or no CPUs yet; otherwise 1 (farRank)
	l3s        int // number of L3 domains from which the CPUs would come
	isSlow     int // 1 if other L3 domains with CPUs of the same kind are faster, otherwise 0
	splits     int // number of CPUs in cores that would be taken partly (countSplits)
	remaining  int // free CPUs that would remain in the domain; few are better, to spare domains with many free CPUs
	freeInNode int // free CPUs in the NUMA node of an L3 domain
}

func (a *fit) less(b *fit) bool {
	switch {
	case a.isFar != b.isFar:
		return a.isFar < b.isFar
	case a.l3s != b.l3s:
		return a.l3s < b.l3s
	case a.isSlow != b.isSlow:
		return a.isSlow < b.isSlow
	case a.splits != b.splits:
		return a.splits < b.splits
	case a.remaining != b.remaining:
		return a.remaining < b.remaining
	default:
		return a.freeInNode < b.freeInNode
	}
}

// bestL3 returns the L3 domain with the best fit for a number of CPUs; -1 if no L3 domain has enough free CPUs. If
// domain is not nil, bestL3 considers only L3 domains within it.
func (p *picker) bestL3(count int, domain *cpuset.Set) int {
	best, bestFit := -1, fit{}
	for i := range p.l3s {
		if int(p.inL3[i].free) < count || domain != nil && !p.l3s[i].SubsetOf(domain) {
			continue
		}
		if free := p.freeInL3(i); free >= count {
			f := fit{p.farRank(&p.l3s[i]), 1, p.slowRank(i), p.countSplits(int(p.inL3[i].whole), count), free - count, int(p.inNUMA[p.l3Node[i]].free)}
			if best < 0 || f.less(&bestFit) {
				best, bestFit = i, f
			}
		}
	}
	return best
}

// bestNUMA returns the NUMA node with the best fit for a number of CPUs; -1 if no NUMA node has enough free CPUs.
func (p *picker) bestNUMA(count int) int {
	best, bestFit := -1, fit{}
	for i := range p.numas {
		if int(p.inNUMA[i].free) < count {
			continue
		}
		if free := p.freeInNUMA(i); free >= count {
			f := fit{p.farRank(&p.numas[i]), p.l3sNeeded(i, count), 0, p.countSplits(p.wholeInNUMA(i), count), free - count, 0}
			if best < 0 || f.less(&bestFit) {
				best, bestFit = i, f
			}
		}
	}
	return best
}

// farRank returns 0 if the container has CPUs in the domain, or has no CPUs yet; otherwise 1.
func (p *picker) farRank(domain *cpuset.Set) int {
	if p.isFirst || p.near.Overlaps(domain) {
		return 0
	}
	return 1
}

// slowRank returns 1 if other L3 domains with CPUs of the same kind are faster than an L3 domain, otherwise 0.
func (l *layout) slowRank(l3 int) int {
	if l.slowL3[l3] {
		return 1
	}
	return 0
}

// countSplits returns the number of CPUs in partly taken cores, if the given number of CPUs is taken from a domain. whole is
// the number of the domain's free CPUs on whole free cores.
func (p *picker) countSplits(whole, count int) int {
	if p.threads == 1 {
		return 0
	}
	whole -= whole % p.threads
	return count - min(count-count%p.threads, whole)
}

// l3sNeeded returns the number of L3 domains of a NUMA node that are needed for the given number of CPUs.
func (p *picker) l3sNeeded(numa, count int) int {
	var used cpuset.Set
	needed := 0
	for count > 0 {
		l3 := p.fullestL3(numa, &used)
		if l3 < 0 {
			break
		}
		count -= p.freeIn(&p.l3s[l3])
		used = used.Union(p.l3s[l3])
		needed++
	}
	return needed
}

// fullestL3 returns the L3 domain of a NUMA node with the most free CPUs, or -1. It ignores L3 domains that overlap the set used.
// L3 domains in which the container has CPUs come first.
func (p *picker) fullestL3(numa int, used *cpuset.Set) int {
	best, bestFar, bestFree := -1, 0, 0
	for i := range p.l3s {
		if p.l3Node[i] != numa || p.inL3[i].free == 0 || used.Overlaps(&p.l3s[i]) {
			continue
		}
		free, rank := p.freeInL3(i), p.farRank(&p.l3s[i])
		if free > 0 && (best < 0 || rank < bestFar || rank == bestFar && free > bestFree) {
			best, bestFar, bestFree = i, rank, free
		}
	}
	return best
}

// takeFromNUMA takes the given number of CPUs of a NUMA node from the fewest L3 domains. It takes all free CPUs of the
// L3 domains with the most free CPUs until the rest fits into a single L3 domain.
func (p *picker) takeFromNUMA(numa, count int) {
	for count > 0 {
		if l3 := p.bestL3(count, &p.numas[numa]); l3 >= 0 {
			p.takeFrom(&p.l3s[l3], count)
			return
		}
		l3 := p.fullestL3(numa, p.taken)
		// A safeguard that is never needed: each L3 domain of the layout is in a single NUMA node, so all free CPUs of the
		// node are in its L3 domains.
		if l3 < 0 {
			p.takeFrom(&p.numas[numa], count)
			return
		}
		in := p.l3s[l3].Intersect(p.numas[numa])
		part := min(count, p.freeIn(&in))
		p.takeFrom(&in, part)
		count -= part
	}
}

// takeFrom takes the given number of free CPUs of a domain: first whole cores, then CPUs of partial cores
// (layout.partial), then CPUs of cores of which other CPUs are taken, and finally CPUs of a whole core, which it
// splits.
func (p *picker) takeFrom(domain *cpuset.Set, count int) {
	free := p.free.Intersect(*domain).Minus(*p.taken)
	if p.threads == 1 {
		p.add(free.Lowest(count))
		return
	}
	wholeCores := p.wholeCores.Set()
	whole := wholeCores.Intersect(free)
	for size := p.maxThreads; size >= p.minThreads; size-- { // if no large core fits, a small core may fit
		for cpu := whole.First(); cpu >= 0 && count >= size; cpu = whole.Next(cpu + 1) {
			at := p.layout.cpus[cpu].core
			core := &p.cores[at]
			if len(p.siblings[at]) != size || !core.SubsetOf(&whole) {
				continue
			}
			p.add(*core)
			free.RemoveAll(core)
			whole.RemoveAll(core)
			count -= size
		}
	}
	if count > 0 {
		rest := free.Minus(wholeCores)
		partial := rest.Intersect(p.partial)
		count -= p.addLowest(partial, count)
		count -= p.addLowest(rest.Minus(partial), count)
		p.addLowest(free.Intersect(wholeCores), count)
	}
}

// add takes all CPUs of a set.
func (p *picker) add(set cpuset.Set) {
	if !set.IsEmpty() {
		p.taken.AddAll(&set)
		p.last = set.Last()
		p.canUseCounts = false
	}
}

// addLowest takes the CPUs with the lowest ids of a set, up to a maximum number, and returns their number.
func (p *picker) addLowest(set cpuset.Set, count int) int {
	low := set.Lowest(count)
	p.add(low)
	return low.Count()
}

// pickCores chooses whole free cores with the given number of CPUs in total; ok is false if this is impossible.
func (n *Node) pickCores(free, near *cpuset.Set, count int) (picked cpuset.Set, last int, ok bool) {
	usable := n.wholeCores.Set().Intersect(*free)
	for cpu := usable.First(); cpu >= 0; cpu = usable.Next(cpu + 1) {
		if core := &n.cores[n.layout.cpus[cpu].core]; !core.SubsetOf(&usable) {
			usable = usable.Minus(*core)
		}
	}
	if usable.Count() < count {
		return picked, -1, false
	}
	picked, last = n.pick(&usable, near, count, Prefer)
	if n.isWholeCores(&picked) {
		return picked, last, true
	}
	return n.pickExactly(&usable, count)
}

// pickExactly chooses whole cores if pick has failed to do so, because cores have different numbers of CPUs. It chooses
// the largest cores first, then the cores with the lowest CPU ids.
func (n *Node) pickExactly(usable *cpuset.Set, count int) (picked cpuset.Set, last int, ok bool) {
	for size := n.maxThreads; size >= n.minThreads; size-- {
		remaining := usable.Minus(picked)
		for cpu := remaining.First(); cpu >= 0 && count >= size; cpu = remaining.Next(cpu + 1) {
			core := n.layout.cpus[cpu].core
			if len(n.siblings[core]) != size || picked.Contains(cpu) {
				continue
			}
			picked.AddAll(&n.cores[core])
			last = n.cores[core].Last()
			count -= size
		}
	}
	return picked, last, count == 0
}

// The functions below choose several NUMA nodes for a container that no single node can hold.

// firstNUMA returns the NUMA node from which a container takes CPUs first. nextNUMA chooses the further nodes. firstNUMA
// minimizes the total number of these nodes, then the sum of their distances.
func (p *picker) firstNUMA(count int) int {
	best, bestNodes, bestDistance := -1, 0, 0
	for i := range p.numas {
		if p.freeInNUMA(i) == 0 {
			continue
		}
		if nodes, distance := p.tour(i, count); best < 0 || nodes < bestNodes || nodes == bestNodes && distance < bestDistance {
			best, bestNodes, bestDistance = i, nodes, distance
		}
	}
	return best
}

// tour returns the number of NUMA nodes that a container needs for its CPUs, and the sum of the distances of these nodes. The
// first node is given, and nextNUMA chooses the further nodes.
func (p *picker) tour(numa, count int) (nodes, distance int) {
	var used cpuset.Set
	for numa >= 0 && count > 0 {
		nodes++
		distance += p.distance(numa, &used)
		used.AddAll(&p.numas[numa])
		count -= p.freeInNUMA(numa)
		numa = p.nextNUMA(count, &used)
	}
	return nodes, distance
}

// nextNUMA returns the next NUMA node after the used nodes: the nearest node with enough free CPUs or, if there is none,
// the node with the most free CPUs; -1 if no unused node has free CPUs.
func (p *picker) nextNUMA(count int, used *cpuset.Set) int {
	best := -1
	var bestKey [3]int
	for i := range p.numas {
		free := p.freeInNUMA(i)
		if free == 0 || used.Overlaps(&p.numas[i]) {
			continue
		}
		key := [3]int{1, -free, p.distance(i, used)}
		if free >= count {
			key = [3]int{0, p.distance(i, used), free}
		}
		if best < 0 || isLessKey(&key, &bestKey) {
			best, bestKey = i, key
		}
	}
	return best
}

// isLessKey compares two keys lexicographically.
func isLessKey(a, b *[3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// distance returns the sum of the distances from a NUMA node to the used nodes and to the nodes in which the container
// has CPUs.
func (p *picker) distance(numa int, used *cpuset.Set) int {
	sum := 0
	distances := p.machine.Nodes[numa].Distances
	for i := range p.numas {
		if i < len(distances) && (used.Overlaps(&p.numas[i]) || p.near.Overlaps(&p.numas[i])) {
			sum += distances[i]
		}
	}
	return sum
}
