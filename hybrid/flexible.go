package hybrid

import (
	"github.com/candor-project/candor/cpuset"
)

// Flexible containers run on the shared CPUs of their domain, and on as many
// fractional CPUs as their guarantees need beyond those. Their cpuset is a
// function of the arrangement of the sensitive containers: it is derived, never
// chosen, so it need not be saved.

// wholeNode is the domain of flexible containers without a wish.
const wholeNode int32 = -1

// A demand is what the flexible containers of a domain need together.
type demand struct {
	count int32 // containers
	need  Milli // sum of their guarantees
}

func (d *demand) add(need Milli)    { d.count++; d.need += need }
func (d *demand) remove(need Milli) { d.count--; d.need -= need }

// A flexibleDomain is a part of the node that flexible containers can wish
// for: an L3 domain, a NUMA node, or all cores that no sensitive container uses.
// Inner domains stand before outer ones in layout.domains; the last one is the whole cores.
type flexibleDomain struct {
	kind  TopologyPolicy // SingleL3, SingleNUMA or WholeCores
	index int            // of the L3 domain or NUMA node in the layout
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

// wholeCoresDemand returns what those need that wished for whole cores.
func (n *Node) wholeCoresDemand() demand {
	if n.demands == nil {
		return demand{}
	}
	return n.demands[len(n.demands)-1]
}

// demandOf returns what the flexible containers of a domain need, to be changed.
func (n *Node) demandOf(d int32) *demand {
	if n.demands == nil {
		n.demands = make([]demand, len(n.domains))
	}
	return &n.demands[d]
}

// domainCPUs returns the CPUs that containers of a domain may ever run on.
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
		n.scratch.whole = n.wholeCores.Set()
		return &n.scratch.whole
	}
}

// anyDomain reports whether a flexible container runs in a domain of its own.
func (n *Node) anyDomain() bool { return n.confined > 0 }

// anyOnWholeNode reports whether a flexible container runs in no domain of its own.
func (n *Node) anyOnWholeNode() bool { return n.flexible.count > n.confined }

// nodeNeed is the time that must be left where flexible containers run.
func (n *Node) nodeNeed() Milli { return max(n.flexible.need, n.options.MinShared) }

// domainNeed is the time that must be left in a domain: the guarantees of its
// own containers and of those of the L3 domains within it.
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

// impossible is the shared time of an arrangement in which the flexible
// containers find no room. It is more than any real one.
const impossible Milli = 1 << 40

// settle returns the shared time of the present arrangement, or impossible.
func (n *Node) settle() Milli {
	need := n.nodeNeed() - n.owed
	if n.roomLeft() < need {
		return impossible
	}
	if n.flexible.count == 0 {
		return n.tally.multiUsed
	}
	if n.anyDomain() {
		set, enough := n.flexibleSet()
		if !enough && !n.owedDomains {
			return impossible
		}
		return n.sharedOn(&set)
	}
	free := int(n.sharedCount)
	lacking := need - Milli(free)*1000 - n.tally.multiRoom
	if lacking <= 0 && free+int(n.tally.multi) > 0 {
		return n.tally.multiUsed
	}
	// Of the other fractional CPUs they use the least loaded ones: each leaves the most
	// room for the least time that becomes shared.
	return min(impossible, n.tally.multiUsed+n.tally.lone.lend(lacking))
}

// sharedNow returns the shared time of the present arrangement, also where
// flexible containers lack room on a node that has lost CPUs.
func (n *Node) sharedNow() Milli {
	if n.options.Algorithm == Candor && !n.anyDomain() && n.owed == 0 {
		if shared := n.settle(); shared < impossible {
			return shared
		}
	}
	set, _ := n.flexibleSet()
	return n.sharedOn(&set)
}

// roomLeft is the time that sensitive containers leave.
func (n *Node) roomLeft() Milli { return Milli(n.sharedCount)*1000 + n.tally.room }

// noteOwed notes what flexible containers lack as things are.
func (n *Node) noteOwed() {
	n.owed = max(0, n.nodeNeed()-n.roomLeft())
	if n.anyDomain() {
		_, enough := n.flexibleSet()
		n.owedDomains = !enough
	}
}

// flexibleSet returns the CPUs on which flexible containers run, and whether
// they have the room there that they need. (On a node that has lost CPUs they may not.)
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
		if n.anyOnWholeNode() {
			enough = n.extend(&set, &n.usable, n.nodeNeed()) && enough
		}
		if whole := n.wholeCoresDemand(); whole.count > 0 && whole.count < n.flexible.count {
			enough = n.wholeCoresFit(&set, whole.need) && enough
		}
		if !n.anyOnWholeNode() {
			n.dropUnused(&set)
		}
	}
	return set, enough
}

// dropUnused takes the fractional CPUs out of a set that are in no domain where a
// flexible container runs: nobody is on them.
func (n *Node) dropUnused(set *cpuset.Set) {
	used := n.shared.Set()
	for d := range n.demands {
		if n.demands[d].count > 0 {
			used.AddAll(n.domainCPUs(int32(d)))
		}
	}
	*set = set.Intersect(used)
}

// sharedOn returns the shared time when flexible containers run on set.
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

// extend adds fractional CPUs of a domain to set until the domain has the room
// that it needs, and at least one CPU: those of several containers first, whose
// time is shared already, then the least loaded ones. It reports whether that was enough.
func (n *Node) extend(set, within *cpuset.Set, need Milli) bool {
	room, any := n.roomOn(set, within)
	if any && room >= need {
		return true
	}
	left := n.fractional.Set().Intersect(*within).Minus(*set)
	for room < need || !any {
		best := -1
		for cpu := left.First(); cpu >= 0; cpu = left.Next(cpu + 1) {
			if !n.load[cpu].closed && (best < 0 || n.lendsBefore(cpu, best)) {
				best = cpu
			}
		}
		if best < 0 {
			return false
		}
		set.Add(best)
		left.Remove(best)
		room += n.load[best].room()
		any = true
	}
	return true
}

// lendsBefore reports whether a fractional CPU is a better place for flexible
// containers than another.
func (n *Node) lendsBefore(cpu, other int) bool {
	a, b := &n.load[cpu], &n.load[other]
	if aMulti, bMulti := a.sharers > 1, b.sharers > 1; aMulti != bMulti {
		return aMulti
	}
	return a.used() < b.used()
}

// roomOn returns the time left on the CPUs of set within a domain, and whether
// there are any.
func (n *Node) roomOn(set, within *cpuset.Set) (room Milli, any bool) {
	in := set.Intersect(*within)
	free := n.shared.CountIn(&in)
	room = Milli(free) * 1000
	if n.fractional.Overlaps(&in) {
		part := in.Intersect(n.fractional.Set())
		for cpu := part.First(); cpu >= 0; cpu = part.Next(cpu + 1) {
			room += n.load[cpu].room()
			any = true
		}
	}
	return room, any || free > 0
}

// available returns the shared CPUs that a sensitive container may take: all
// but those that the flexible containers of a domain need for themselves.
func (n *Node) available() cpuset.Set {
	free := n.shared.Set()
	if !n.anyDomain() {
		return free
	}
	for i := range n.demands {
		if n.demands[i].count == 0 {
			continue
		}
		if n.domains[i].kind == WholeCores {
			n.keepWholeCores(&free, n.demands[i].need)
			continue
		}
		within := n.domainCPUs(int32(i))
		open := n.openWithin(within)
		room, _ := n.roomOn(&open, within)
		spare := min(int((room-n.domainNeed(int32(i)))/1000), open.Count()-1)
		n.keepAllBut(&free, within, spare)
	}
	return free
}

// openWithin returns the shared CPUs and open fractional CPUs of a domain.
func (n *Node) openWithin(within *cpuset.Set) cpuset.Set {
	open := n.shared.Set().Union(n.fractional.Set()).Intersect(*within)
	for cpu := open.First(); cpu >= 0; cpu = open.Next(cpu + 1) {
		if n.load[cpu].closed {
			open.Remove(cpu)
		}
	}
	return open
}

// keepAllBut takes CPUs of a domain out of free, the highest ids first, until
// only spare of them are left in it.
func (n *Node) keepAllBut(free, within *cpuset.Set, spare int) {
	inside := free.Intersect(*within)
	for count := inside.Count(); count > max(spare, 0); count-- {
		cpu := inside.Last()
		inside.Remove(cpu)
		free.Remove(cpu)
	}
}

// Flexible containers that wish for whole cores run on the cores that no sensitive
// container has a part of.

// keepWholeCores takes the highest free cores out of free that flexible
// containers need, which wished for cores without sensitive containers.
func (n *Node) keepWholeCores(free *cpuset.Set, need Milli) {
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

// wholeCoresFit reports whether the containers that wished for whole cores find
// their time beside those of L3 domains and NUMA nodes, whose CPUs they use too. Where they do not
// on set, it adds all open fractional CPUs to it, so that the others can do without the whole cores.
func (n *Node) wholeCoresFit(set *cpuset.Set, need Milli) bool {
	if n.wholeCoresRoom(set) >= need {
		return true
	}
	open := n.openWithin(&n.usable)
	set.AddAll(&open)
	return n.wholeCoresRoom(set) >= need
}

// wholeCoresRoom returns the time that the whole cores of set can give beside
// the guarantees of each domain: what flows up the tree of domains, no more through each
// than its whole cores have and than its own containers leave.
func (n *Node) wholeCoresRoom(set *cpuset.Set) Milli {
	whole := n.wholeCores.Set().Intersect(*set)
	left := func(d int32, within *cpuset.Set) Milli {
		room, _ := n.roomOn(set, within)
		return room - n.domainNeed(d)
	}
	var sum Milli
	for numa := range n.numas {
		var inNode Milli
		for l3 := range n.l3s {
			if n.l3Node[l3] == numa {
				inNode += min(Milli(whole.CountIn(&n.l3s[l3]))*1000, left(int32(l3), &n.l3s[l3]))
			}
		}
		sum += min(inNode, left(int32(len(n.l3s)+numa), &n.numas[numa]))
	}
	room, _ := n.roomOn(set, &n.usable)
	others := n.flexible.need - n.wholeCoresDemand().need
	return min(sum, room-others)
}

// admitFlexible finds the domain of a flexible container, by its wish: of those
// with room the one where the node shares the least, and among equals the one with the
// most room.
func (n *Node) admitFlexible(s int32) error {
	slot := &n.slots[s]
	wish := slot.Topology
	best, bestShared, bestRoom := wholeNode, impossible, Milli(0)
	for d := range n.domains {
		if n.domains[d].kind != wish {
			continue
		}
		n.setDomain(s, int32(d))
		shared := n.settle()
		within := n.domainCPUs(int32(d))
		open := n.openWithin(within)
		room, _ := n.roomOn(&open, within)
		room -= n.domainNeed(int32(d))
		if shared < bestShared || shared == bestShared && shared < impossible && room > bestRoom {
			best, bestShared, bestRoom = int32(d), shared, room
		}
	}
	n.setDomain(s, best)
	if best == wholeNode && wish.isDomain() && !n.admitByMoving(s) && slot.Policy == Strict {
		return ErrNoCapacity
	}
	if n.settle() == impossible {
		return ErrNoCapacity
	}
	return nil
}

// admitByMoving finds a domain of a flexible container's wish from which fractions
// can move away to make room for it. It reports whether there is one.
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

// clearDomain moves fractions out of a domain, the largest first, until a flexible
// container that comes into it has room. If it fails, the caller undoes.
func (n *Node) clearDomain(s, d int32) bool {
	if n.domains[d].kind == WholeCores {
		cpus := n.slots[s].guaranteed().CPUs()
		if !n.clearCores(s, (cpus+n.threads-1)/n.threads*n.threads) {
			return false
		}
	}
	n.setDomain(s, d)
	n.collect(s)
	for n.settle() == impossible {
		if n.domains[d].kind == WholeCores || !n.moveOut(n.domainCPUs(d)) || n.price(n.scratch.log) > n.options.RescueMoves {
			return false
		}
	}
	return true
}

// moveOut moves the largest fraction that can go out of a domain, and reports
// whether there was one.
func (n *Node) moveOut(domain *cpuset.Set) bool {
	places := n.available().Union(n.fractional.Set()).Minus(*domain)
	best, bestTo := int32(-1), -1
	for i := range n.scratch.items {
		it := &n.scratch.items[i]
		if it.pinned || !domain.Contains(int(it.cpu)) || best >= 0 && it.milli <= n.scratch.items[best].milli {
			continue
		}
		if to := n.bestFit(it, &places); to >= 0 {
			best, bestTo = int32(i), to
		}
	}
	if best < 0 {
		return false
	}
	n.move(best, bestTo)
	return true
}

// setDomain moves a flexible container, and what it needs, to a domain.
func (n *Node) setDomain(s, domain int32) {
	n.unpromise(s)
	n.slots[s].domain = domain
	n.promise(s)
}

// flexibleStillFits finds room for a flexible container that was resized: where
// it is, else in another domain.
func (n *Node) flexibleStillFits(s int32) error {
	if n.options.Algorithm == Paper {
		return n.paperAllocate(s)
	}
	if n.settle() < impossible {
		return nil
	}
	return n.admitFlexible(s)
}
