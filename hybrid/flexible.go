package hybrid

import (
	"github.com/candor-project/candor/cpuset"
)

// Flexible containers run on the shared CPUs of their domain. If the shared CPUs have too little time for
// the guarantees, flexible containers also run on fractional CPUs of the domain. The arrangement, that is
// the CPUs and fractions of all sensitive containers, determines the cpusets of flexible containers. So the
// node does not store these cpusets.

// wholeNode is the domain of flexible containers that are not confined to a part of the node.
const wholeNode int32 = -1

// A demand holds the number of flexible containers of a domain or node, and the sum of their guarantees.
type demand struct {
	count int32 // containers
	need  Milli // sum of their guarantees
}

func (d *demand) add(need Milli)    { d.count++; d.need += need }
func (d *demand) remove(need Milli) { d.count--; d.need -= need }

// A flexibleDomain is a part of the node to which a topology policy confines a flexible container: an L3
// domain, a NUMA node, or all cores without sensitive containers. In layout.domains, L3 domains precede NUMA
// nodes; the last entry is the whole cores.
type flexibleDomain struct {
	kind  TopologyPolicy // SingleL3, SingleNUMA or WholeCores
	index int            // index of the L3 domain or NUMA node in the layout
}

func newFlexibleDomains(l *layout) []flexibleDomain {
	var domains []flexibleDomain
	for i := range l.l3s {
		domains = append(domains, flexibleDomain{kind: SingleL3, index: i})
	}
	for i := range l.numas {
		domains = append(domains, flexibleDomain{kind: SingleNUMA, index: i})
	}
	return append(domains, flexibleDomain{kind: WholeCores})
}

// wholeCoresDemand returns the demand of the flexible containers on whole cores.
func (n *Node) wholeCoresDemand() demand {
	if n.demands == nil {
		return demand{}
	}
	return n.demands[len(n.demands)-1]
}

// demandOf returns the demand of a domain for modification.
func (n *Node) demandOf(d int32) *demand {
	if n.demands == nil {
		n.demands = make([]demand, len(n.domains))
	}
	return &n.demands[d]
}

// domainCPUs returns the CPUs on which the containers of a domain may run. For whole cores, the result is
// valid until the next call.
func (n *Node) domainCPUs(d int32) *cpuset.Set {
	if d == wholeNode {
		return &n.usable
	}
	switch domain := &n.domains[d]; domain.kind {
	case SingleL3:
		return &n.l3s[domain.index]
	case SingleNUMA:
		return &n.numas[domain.index]
	default:
		n.scratch.wholeCoreSet = n.wholeCores.Set()
		return &n.scratch.wholeCoreSet
	}
}

// hasConfined reports whether any flexible container is confined to a domain.
func (n *Node) hasConfined() bool { return n.confined > 0 }

// hasUnconfined reports whether any flexible container is not confined to a domain.
func (n *Node) hasUnconfined() bool { return n.flexible.count > n.confined }

// nodeNeed returns the CPU time that must remain for the flexible containers of the node.
func (n *Node) nodeNeed() Milli { return max(n.flexible.need, n.options.MinShared) }

// domainNeed returns the CPU time that must remain in a domain: the guarantees of the containers confined to the domain
// and, for a NUMA node, of the containers confined to its L3 domains.
func (n *Node) domainNeed(d int32) Milli {
	domain := &n.domains[d]
	need := n.demandOf(d).need
	for i := range n.domains {
		if inner := &n.domains[i]; inner.kind == SingleL3 && domain.kind == SingleNUMA && n.l3Node[inner.index] == domain.index {
			need += n.demands[i].need
		}
	}
	return need
}

// impossible stands for the shared time of a node on which the flexible containers have no room. It exceeds every real
// shared time.
const impossible Milli = 1 << 40

// sharedIfValid returns the present shared time of the node (Node.Shared), or impossible if the flexible containers
// have no room. On a node that has lost CPUs, the room that was lacking before the plan (recordShortage) may still be
// lacking.
func (n *Node) sharedIfValid() Milli {
	need := n.nodeNeed() - n.shortage
	if n.roomLeft() < need {
		return impossible
	}
	if n.flexible.count == 0 {
		return n.tally.multiUsed
	}
	if n.hasConfined() {
		set, enough := n.flexibleSet()
		if !enough && !n.isDomainShort {
			return impossible
		}
		return n.sharedOn(&set)
	}
	free := int(n.sharedCount)
	lacking := need - Milli(free)*1000 - n.tally.multiRoom
	if lacking <= 0 && free+int(n.tally.multi) > 0 {
		return n.tally.multiUsed
	}
	// The flexible containers also use fractional CPUs of a single grant. The least loaded CPUs come first, because
	// they have the most room and add the least shared time.
	return min(impossible, n.tally.multiUsed+n.tally.lone.lend(lacking))
}

// currentShared returns the present shared time of the node (Node.Shared), even if flexible containers lack room
// because the node has lost CPUs.
func (n *Node) currentShared() Milli {
	if n.options.Algorithm == Candor && !n.hasConfined() && n.shortage == 0 {
		if shared := n.sharedIfValid(); shared < impossible {
			return shared
		}
	}
	set, _ := n.flexibleSet()
	return n.sharedOn(&set)
}

// roomLeft returns the time of the shared CPUs, plus the free time of the fractional CPUs that are not closed.
func (n *Node) roomLeft() Milli { return Milli(n.sharedCount)*1000 + n.tally.room }

// recordShortage records how much CPU time the flexible containers lack before a plan starts.
func (n *Node) recordShortage() {
	n.shortage = max(0, n.nodeNeed()-n.roomLeft())
	if n.hasConfined() {
		_, enough := n.flexibleSet()
		n.isDomainShort = !enough
	}
}

// flexibleSet returns the CPUs of flexible containers, and whether the flexible containers have enough room. The
// room can be insufficient on a node that has lost CPUs.
func (n *Node) flexibleSet() (set cpuset.Set, enough bool) {
	if n.options.Algorithm == Paper {
		return n.shared.Set().Union(n.fractional.Set()), true
	}
	set, enough = n.shared.Set(), true
	if n.flexible.count > 0 {
		for d := range n.demands {
			if n.demands[d].count > 0 {
				enough = n.extend(&set, n.domainCPUs(int32(d)), n.domainNeed(int32(d))) && enough
			}
		}
		if n.hasUnconfined() {
			enough = n.extend(&set, &n.usable, n.nodeNeed()) && enough
		}
		if whole := n.wholeCoresDemand(); whole.count > 0 && whole.count < n.flexible.count {
			enough = n.wholeCoresFit(&set, whole.need) && enough
		}
		if !n.hasUnconfined() {
			n.dropUnused(&set)
		}
	}
	return set, enough
}

// dropUnused removes fractional CPUs from a set if they are in no domain with a flexible container.
func (n *Node) dropUnused(set *cpuset.Set) {
	used := n.shared.Set()
	for d := range n.demands {
		if n.demands[d].count > 0 {
			used.AddAll(n.domainCPUs(int32(d)))
		}
	}
	*set = set.Intersect(used)
}

// sharedOn returns the shared time if flexible containers run on the CPUs of the given set.
func (n *Node) sharedOn(set *cpuset.Set) Milli {
	shared := n.tally.multiUsed
	if n.flexible.count > 0 {
		for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
			if c := &n.load[cpu]; c.sharers == 1 && set.Contains(cpu) {
				shared += c.used()
			}
		}
	}
	return shared
}

// extend adds fractional CPUs of a domain to a set until the set has one or more CPUs in the domain, whose room is at
// least need in total. CPUs of several sensitive containers come first, because their time is shared already; then the
// least loaded CPUs. extend reports whether the room suffices.
func (n *Node) extend(set, domain *cpuset.Set, need Milli) bool {
	room, hasCPU := n.roomOn(set, domain)
	if hasCPU && room >= need {
		return true
	}
	remaining := n.fractional.Set().Intersect(*domain).Minus(*set)
	for room < need || !hasCPU {
		best := -1
		for cpu := remaining.First(); cpu >= 0; cpu = remaining.Next(cpu + 1) {
			if !n.load[cpu].isClosed && (best < 0 || n.isLentBefore(cpu, best)) {
				best = cpu
			}
		}
		if best < 0 {
			return false
		}
		set.Add(best)
		remaining.Remove(best)
		room += n.load[best].room()
		hasCPU = true
	}
	return true
}

// isLentBefore reports whether extend adds the CPU cpu to the set before the CPU other.
func (n *Node) isLentBefore(cpu, other int) bool {
	a, b := &n.load[cpu], &n.load[other]
	if aMulti, bMulti := a.sharers > 1, b.sharers > 1; aMulti != bMulti {
		return aMulti
	}
	return a.used() < b.used()
}

// roomOn returns the free time on those CPUs of a set that are in a domain, and reports whether there are such CPUs.
func (n *Node) roomOn(set, domain *cpuset.Set) (room Milli, hasCPU bool) {
	inside := set.Intersect(*domain)
	free := n.shared.CountIn(&inside)
	room = Milli(free) * 1000
	if n.fractional.Overlaps(&inside) {
		part := inside.Intersect(n.fractional.Set())
		for cpu := part.First(); cpu >= 0; cpu = part.Next(cpu + 1) {
			room += n.load[cpu].room()
			hasCPU = true
		}
	}
	return room, hasCPU || free > 0
}

// available returns the shared CPUs that a sensitive container may take: all shared CPUs except the CPUs that
// flexible containers need in the domains to which they are confined.
func (n *Node) available() cpuset.Set {
	free := n.shared.Set()
	if !n.hasConfined() {
		return free
	}
	for i := range n.demands {
		if n.demands[i].count == 0 {
			continue
		}
		if n.domains[i].kind == WholeCores {
			n.reserveWholeCores(&free, n.demands[i].need)
			continue
		}
		domain := n.domainCPUs(int32(i))
		open := n.openWithin(domain)
		room, _ := n.roomOn(&open, domain)
		spare := min(int((room-n.domainNeed(int32(i)))/1000), open.Count()-1)
		n.reserveAllBut(&free, domain, spare)
	}
	return free
}

// openWithin returns the shared CPUs of a domain, and its fractional CPUs that are not closed.
func (n *Node) openWithin(domain *cpuset.Set) cpuset.Set {
	open := n.shared.Set().Union(n.fractional.Set()).Intersect(*domain)
	for cpu := open.First(); cpu >= 0; cpu = open.Next(cpu + 1) {
		if n.load[cpu].isClosed {
			open.Remove(cpu)
		}
	}
	return open
}

// reserveAllBut removes CPUs of a domain from the set free, the highest ids first. spare is the maximum number of CPUs of the
// domain that remain in the set.
func (n *Node) reserveAllBut(free, domain *cpuset.Set, spare int) {
	inside := free.Intersect(*domain)
	for count := inside.Count(); count > max(spare, 0); count-- {
		cpu := inside.Last()
		inside.Remove(cpu)
		free.Remove(cpu)
	}
}

// reserveWholeCores removes whole cores from the set free, the highest ids first, until the time of the removed cores covers
// need, the sum of the guarantees of the flexible containers on whole cores. It removes at least one core.
func (n *Node) reserveWholeCores(free *cpuset.Set, need Milli) {
	whole := n.wholeCores.Set()
	for first := true; first || need > 0; first = false {
		cpu := whole.Last()
		if cpu < 0 {
			return
		}
		core := &n.cores[n.layout.cpus[cpu].core]
		*free = free.Minus(*core)
		whole = whole.Minus(*core)
		need -= Milli(core.Count()) * 1000
	}
}

// wholeCoresFit reports whether the flexible containers on whole cores have enough time. They compete with the
// containers of L3 domains and NUMA nodes, which may use whole cores too. If the time does not suffice, wholeCoresFit
// adds all fractional CPUs that are not closed to the set, so that the other containers need less time on whole cores.
func (n *Node) wholeCoresFit(set *cpuset.Set, need Milli) bool {
	if n.wholeCoresRoom(set) >= need {
		return true
	}
	open := n.openWithin(&n.usable)
	set.AddAll(&open)
	return n.wholeCoresRoom(set) >= need
}

// wholeCoresRoom returns the time on the whole cores of a set that the other flexible containers do not need. It sums
// up the tree of domains: each domain contributes at most the time of its whole cores, and at most the time that the
// containers of the domain do not need.
func (n *Node) wholeCoresRoom(set *cpuset.Set) Milli {
	whole := n.wholeCores.Set().Intersect(*set)
	roomIn := func(d int32, domain *cpuset.Set) Milli {
		room, _ := n.roomOn(set, domain)
		return room - n.domainNeed(d)
	}
	var sum Milli
	for numa := range n.numas {
		var inNode Milli
		for l3 := range n.l3s {
			if n.l3Node[l3] == numa {
				inNode += min(Milli(whole.CountIn(&n.l3s[l3]))*1000, roomIn(int32(l3), &n.l3s[l3]))
			}
		}
		sum += min(inNode, roomIn(int32(len(n.l3s)+numa), &n.numas[numa]))
	}
	room, _ := n.roomOn(set, &n.usable)
	others := n.flexible.need - n.wholeCoresDemand().need
	return min(sum, room-others)
}

// admitFlexible chooses the domain of a flexible container by its topology policy: the domain that leads to the
// least shared time, then the domain with the most room. If no domain has room, it moves fractions out of a domain.
func (n *Node) admitFlexible(s int32) error {
	slot := &n.slots[s]
	policy := slot.Topology
	best, bestShared, bestRoom := wholeNode, impossible, Milli(0)
	for d := range n.domains {
		if n.domains[d].kind != policy {
			continue
		}
		n.setDomain(s, int32(d))
		shared := n.sharedIfValid()
		domain := n.domainCPUs(int32(d))
		open := n.openWithin(domain)
		room, _ := n.roomOn(&open, domain)
		room -= n.domainNeed(int32(d))
		if shared < bestShared || shared == bestShared && shared < impossible && room > bestRoom {
			best, bestShared, bestRoom = int32(d), shared, room
		}
	}
	n.setDomain(s, best)
	if best == wholeNode && policy.isDomain() && !n.admitByMoving(s) && slot.Policy == Strict {
		return ErrNoCapacity
	}
	if n.sharedIfValid() == impossible {
		return ErrNoCapacity
	}
	return nil
}

// admitByMoving moves fractions out of a domain of the container's topology policy so that a flexible container
// fits there. It reports whether it succeeded.
func (n *Node) admitByMoving(s int32) bool {
	if n.options.RescueMoves < 0 {
		return false
	}
	for d := range n.domains {
		if n.domains[d].kind != n.slots[s].Topology {
			continue
		}
		mark := n.mark()
		if n.clearDomain(s, int32(d)) {
			return true
		}
		n.undo(mark)
		n.setDomain(s, wholeNode)
	}
	return false
}

// clearDomain moves fractions out of a domain, the largest first, until a new flexible container has room there.
// It reports whether it succeeded. If not, the caller undoes the moves.
func (n *Node) clearDomain(s, d int32) bool {
	if n.domains[d].kind == WholeCores {
		cpus := n.slots[s].guaranteed().CPUs()
		if !n.clearCores(s, (cpus+n.maxThreads-1)/n.maxThreads*n.maxThreads, &n.usable) {
			return false
		}
	}
	n.setDomain(s, d)
	n.collectItems(s)
	for n.sharedIfValid() == impossible {
		if n.domains[d].kind == WholeCores || !n.moveOut(n.domainCPUs(d)) || n.countMoves(n.scratch.log) > n.options.RescueMoves {
			return false
		}
	}
	return true
}

// moveOut moves the largest movable fraction out of a domain, and reports whether it found one.
func (n *Node) moveOut(domain *cpuset.Set) bool {
	candidates := n.available().Union(n.fractional.Set()).Minus(*domain)
	best, bestTo := int32(-1), -1
	for i := range n.scratch.items {
		it := &n.scratch.items[i]
		if it.isPinned || !domain.Contains(int(it.cpu)) || best >= 0 && it.milli <= n.scratch.items[best].milli {
			continue
		}
		if to := n.bestFit(it, &candidates); to >= 0 {
			best, bestTo = int32(i), to
		}
	}
	if best < 0 {
		return false
	}
	n.move(best, bestTo)
	return true
}

// setDomain moves a flexible container and its demand to a domain.
func (n *Node) setDomain(s, domain int32) {
	n.subtractFromSums(s)
	n.slots[s].domain = domain
	n.addToSums(s)
}

// refitFlexible finds room for a resized flexible container: in its present domain or, if that has no room, in
// another domain.
func (n *Node) refitFlexible(s int32) error {
	if n.options.Algorithm == Paper {
		return n.paperAllocate(s)
	}
	if n.sharedIfValid() < impossible {
		return nil
	}
	return n.admitFlexible(s)
}
