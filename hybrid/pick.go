package hybrid

import (
	"github.com/candor-project/candor/cpuset"
)

// pick chooses count CPUs of free by topology. The order of preference is: fewest NUMA nodes, fewest
// L3 domains, fewest split cores, largest free domains left whole, lowest ids. CPUs close to near come
// first if near is not empty. last is the CPU chosen last, which should carry a fraction. free must
// contain at least count CPUs.
func (n *Node) pick(free *cpuset.Set, near *cpuset.Set, count int, policy TopologyPolicy) (picked cpuset.Set, last int) {
	if count == 0 {
		return picked, -1
	}
	if policy == NoTopology {
		picked = free.Lowest(count)
		return picked, picked.Last()
	}
	p := picker{Node: n, free: free, near: near, taken: &picked, last: -1}
	p.isFirst = near.IsEmpty()
	p.canUseCounts = *free == n.shared.Set()
	p.choose(count)
	return picked, p.last
}

// A picker holds the state of a call of pick.
type picker struct {
	*Node
	free, near   *cpuset.Set
	taken        *cpuset.Set
	last         int
	isFirst      bool // the container has no CPU yet
	canUseCounts bool // free equals the shared pool and nothing is taken: the node's counts apply
}

// choose takes count CPUs.
func (p *picker) choose(count int) {
	if l3 := p.bestL3(count, nil); l3 >= 0 {
		p.takeFrom(&p.l3s[l3], count)
		return
	}
	if numa := p.bestNUMA(count); numa >= 0 {
		p.takeFromNUMA(numa, count)
		return
	}
	// No node has enough CPUs: take whole nodes until the rest fits into a single node.
	var used cpuset.Set
	for numa := p.firstNUMA(count); count > 0 && numa >= 0; numa = p.nextNUMA(count, &used) {
		part := min(count, p.freeIn(&p.numas[numa]))
		p.takeFromNUMA(numa, part)
		used.AddAll(&p.numas[numa])
		count -= part
	}
}

// freeIn counts the free CPUs of a domain, without the CPUs that this pick has taken.
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

// A fit ranks a domain with enough free CPUs. Smaller fields are better, in order.
type fit struct {
	isFar      int // 0: the container has CPUs there already
	l3s        int // number of L3 domains needed
	splits     int // number of split cores
	remaining  int // remaining free CPUs in the domain: spare the large domains
	freeInNode int // free CPUs in the NUMA node around it
}

func (a *fit) less(b *fit) bool {
	switch {
	case a.isFar != b.isFar:
		return a.isFar < b.isFar
	case a.l3s != b.l3s:
		return a.l3s < b.l3s
	case a.splits != b.splits:
		return a.splits < b.splits
	case a.remaining != b.remaining:
		return a.remaining < b.remaining
	default:
		return a.freeInNode < b.freeInNode
	}
}

// bestL3 returns the L3 domain with the best fit for count CPUs, within a set or (nil) anywhere; -1 if
// no domain has room.
func (p *picker) bestL3(count int, domain *cpuset.Set) int {
	best, bestFit := -1, fit{}
	for i := range p.l3s {
		if int(p.inL3[i].free) < count || domain != nil && !p.l3s[i].SubsetOf(domain) {
			continue
		}
		if free := p.freeInL3(i); free >= count {
			f := fit{p.farRank(&p.l3s[i]), 1, p.countSplits(int(p.inL3[i].whole), count), free - count, int(p.inNUMA[p.l3Node[i]].free)}
			if best < 0 || f.less(&bestFit) {
				best, bestFit = i, f
			}
		}
	}
	return best
}

// bestNUMA returns the NUMA node with the best fit for count CPUs; -1 if no node has room.
func (p *picker) bestNUMA(count int) int {
	best, bestFit := -1, fit{}
	for i := range p.numas {
		if int(p.inNUMA[i].free) < count {
			continue
		}
		if free := p.freeInNUMA(i); free >= count {
			f := fit{p.farRank(&p.numas[i]), p.l3sNeeded(i, count), p.countSplits(int(p.inNUMA[i].whole), count), free - count, 0}
			if best < 0 || f.less(&bestFit) {
				best, bestFit = i, f
			}
		}
	}
	return best
}

// farRank returns 0 if the container has CPUs in the domain or has no CPUs yet, else 1.
func (p *picker) farRank(domain *cpuset.Set) int {
	if p.isFirst || p.near.Overlaps(domain) {
		return 0
	}
	return 1
}

// countSplits returns the number of cores that are split if count CPUs are taken from a domain with whole
// CPUs on whole free cores. Whole free cores are taken first.
func (p *picker) countSplits(whole, count int) int {
	if p.maxThreads == 1 {
		return 0
	}
	whole -= whole % p.maxThreads
	return count - min(count-count%p.maxThreads, whole)
}

// l3sNeeded returns the number of L3 domains of a NUMA node that count CPUs need.
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

// fullestL3 returns the L3 domain of a NUMA node, outside used, with the most free CPUs. Domains where
// the container has CPUs come first.
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

// takeFromNUMA takes count CPUs of a NUMA node from the fewest L3 domains: the domains with the most
// free CPUs, until the rest fits into a single domain.
func (p *picker) takeFromNUMA(numa, count int) {
	for count > 0 {
		if l3 := p.bestL3(count, &p.numas[numa]); l3 >= 0 {
			p.takeFrom(&p.l3s[l3], count)
			return
		}
		l3 := p.fullestL3(numa, p.taken)
		if l3 < 0 { // an L3 domain spans nodes: take the rest in any order
			p.takeFrom(&p.numas[numa], count)
			return
		}
		in := p.l3s[l3].Intersect(p.numas[numa])
		part := min(count, p.freeIn(&in))
		p.takeFrom(&in, part)
		count -= part
	}
}

// takeFrom takes count free CPUs of a domain: whole cores while they fit, then CPUs of cores that are
// split already. Last, it splits a core.
func (p *picker) takeFrom(domain *cpuset.Set, count int) {
	free := p.free.Intersect(*domain).Minus(*p.taken)
	wholeCores := p.wholeCores.Set()
	whole := wholeCores.Intersect(free)
	if p.maxThreads == 1 {
		p.add(whole.Lowest(count))
		return
	}
	for size := p.maxThreads; size >= p.minThreads; size-- { // a small core may still fit last
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
		count -= p.addLowest(free.Minus(wholeCores), count)
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

// addLowest takes at most count CPUs of a set and returns their number.
func (p *picker) addLowest(set cpuset.Set, count int) int {
	low := set.Lowest(count)
	p.add(low)
	return low.Count()
}

// pickCores chooses whole free cores with exactly count CPUs; ok is false if there are none.
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

// pickExactly chooses whole cores with exactly count CPUs on machines with cores of several sizes, if
// the best domain has no exact fit. The largest cores come first, then the lowest ids.
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

// firstNUMA returns the NUMA node to start with if no single node has count CPUs. It minimizes the
// number of nodes that nextNUMA adds, then the sum of their distances.
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

// tour returns the number of NUMA nodes for count CPUs, starting with a given node, and the sum of
// their distances.
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

// nextNUMA returns the next NUMA node after the used nodes: the nearest node with room for count CPUs,
// else the node with the most free CPUs; -1 if none is left.
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

func isLessKey(a, b *[3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// distance returns the sum of the distances of a NUMA node to the used nodes and to the nodes where
// the container has CPUs.
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
