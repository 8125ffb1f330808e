package hybrid

import (
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A machine is hybrid if it has several kinds of cores, such as performance and efficiency cores (topology.Kind). The
// threads of a program on cores of different kinds run at different speeds and wait for each other. So a sensitive
// container gets CPUs of a single kind if possible. If several kinds have room, placeOnKind chooses the kind. The
// topology policy none ignores kinds.

// addKinds adds the usable CPUs of each kind to the layout, and the kind of each CPU to its location.
func (l *layout) addKinds() {
	for i := range l.machine.Kinds {
		cpus := l.machine.Kinds[i].CPUs.Intersect(l.usable)
		if cpus.IsEmpty() {
			continue
		}
		for cpu := range cpus.All() {
			l.cpus[cpu].kind = int16(len(l.kinds))
		}
		l.kinds = append(l.kinds, cpus)
	}
	if len(l.kinds) < 2 {
		l.kinds = nil
	}
	l.threads = make([]int, len(l.kinds))
}

// addSlowL3s finds the L3 domains that are slower than other domains with CPUs of the same kind.
func (l *layout) addSlowL3s() {
	slow := l.machine.SlowCPUs()
	l.slowL3 = make([]bool, len(l.l3s))
	for i := range l.l3s {
		l.slowL3[i] = slow.Overlaps(&l.l3s[i])
	}
}

// countSlowL3s counts the slow L3 domains (layout.slowL3) in which the CPUs are.
func (l *layout) countSlowL3s(cpus *cpuset.Set) (count int) {
	for i := range l.l3s {
		if l.slowL3[i] && cpus.Overlaps(&l.l3s[i]) {
			count++
		}
	}
	return count
}

// isHybrid reports whether the usable CPUs are of several kinds.
func (l *layout) isHybrid() bool { return len(l.kinds) > 1 }

// countKinds returns the number of kinds of the CPUs, and the index of the fastest of these kinds.
func (l *layout) countKinds(cpus *cpuset.Set) (count, fastest int) {
	for i := len(l.kinds) - 1; i >= 0; i-- {
		if cpus.Overlaps(&l.kinds[i]) {
			count, fastest = count+1, i
		}
	}
	return count, fastest
}

// describeKinds returns a phrase for the kinds of the CPUs on a hybrid machine, such as "P cores and E cores".
func (l *layout) describeKinds(cpus *cpuset.Set) string {
	var names []string
	for i := range l.machine.Kinds {
		if cpus.Overlaps(&l.machine.Kinds[i].CPUs) {
			names = append(names, l.machine.DescribeKind(i))
		}
	}
	return strings.Join(names, " and ")
}

// placeByKind places a container like n.place. On a hybrid machine, it uses CPUs of a single kind if possible: first
// without moves of other containers' fractions, then with moves.
func (n *Node) placeByKind(s int32, domain *cpuset.Set) error {
	if n.usesKinds(s) && (n.placeOnKind(s, domain, false) || n.placeOnKind(s, domain, true)) {
		return nil
	}
	return n.place(s, domain)
}

// placeDirectlyByKind places a container like placeDirectly, on CPUs of a single kind.
func (n *Node) placeDirectlyByKind(s int32) bool {
	if n.usesKinds(s) {
		return n.placeOnKind(s, &n.usable, false)
	}
	return n.placeDirectly(s, &n.usable)
}

// usesKinds reports whether the CPUs of a container should be of a single kind.
func (n *Node) usesKinds(s int32) bool { return n.isHybrid() && n.slots[s].Topology != NoTopology }

// placeOnKind places a container on CPUs of a single kind in a domain. The best kind is the kind for which the node's shared time
// rises least. Of equal kinds, placeOnKind takes the kind with the most CPUs that the container had before a resize, then the
// fastest kind. canMove permits moves of other containers' fractions. placeOnKind reports whether it succeeded.
func (n *Node) placeOnKind(s int32, domain *cpuset.Set, canMove bool) bool {
	best, bestKey := -1, [3]int{}
	heldCPUs := n.slots[s].cpus()
	before := n.sharedIfValid()
	for i := range n.kinds {
		if !heldCPUs.SubsetOf(&n.kinds[i]) {
			continue
		}
		mark := n.mark()
		if n.placeOn(s, i, domain, canMove) {
			key := [3]int{int(n.sharedIfValid()), -n.oldCPUs.CountIn(&n.kinds[i]), i}
			if !canMove && best < 0 && Milli(key[0]) <= before && n.oldCPUs.IsEmpty() {
				return true // no other kind is better, because a placement without moves never lowers the shared time
			}
			if best < 0 || isLessKey(&key, &bestKey) {
				best, bestKey = i, key
			}
		}
		n.undo(mark)
	}
	return best >= 0 && n.placeOn(s, best, domain, canMove)
}

// placeOn places a container on CPUs of a kind in a domain, and reports whether it succeeded.
func (n *Node) placeOn(s int32, kind int, domain *cpuset.Set, canMove bool) bool {
	part := n.kinds[kind].Intersect(*domain)
	if canMove {
		return n.place(s, &part) == nil
	}
	return n.placeDirectly(s, &part)
}

// pickByKind chooses CPUs like n.pick, from the fewest kinds. It prefers the kinds of the CPUs in the set near, then a
// kind with enough free CPUs, then the fastest kind.
func (n *Node) pickByKind(free, near *cpuset.Set, count int) (picked cpuset.Set, last int) {
	rest, heldCPUs := *free, *near
	for last = -1; count > 0; {
		kind := n.nextKind(&rest, &heldCPUs, near.IsEmpty(), count)
		if kind < 0 { // the caller guarantees enough free CPUs, so this does not happen
			break
		}
		part := rest.Intersect(n.kinds[kind])
		var some cpuset.Set
		some, last = n.pickFrom(&part, &heldCPUs, min(count, part.Count()), n.threads[kind])
		count -= some.Count()
		picked.AddAll(&some)
		heldCPUs.AddAll(&some)
		rest.RemoveAll(&part)
	}
	return picked, last
}

// nextKind returns the kind from which pickByKind takes CPUs next; -1 if no CPU is free. isFirst reports whether the
// container had no CPUs before.
func (n *Node) nextKind(free, near *cpuset.Set, isFirst bool, count int) int {
	best, bestKey := -1, [3]int{}
	for i := range n.kinds {
		room := free.CountIn(&n.kinds[i])
		if room == 0 {
			continue
		}
		key := [3]int{0, 0, i}
		if !isFirst && !near.Overlaps(&n.kinds[i]) {
			key[0] = 1
		}
		if room < count {
			key[1] = 1
		}
		if best < 0 || isLessKey(&key, &bestKey) {
			best, bestKey = i, key
		}
	}
	return best
}

// staysOnKind reports whether a move of an item to a CPU adds no kind to the kinds of its container's CPUs.
func (n *Node) staysOnKind(it *item, cpu int) bool {
	return !n.isHybrid() || n.staysInDomain(it, &n.kinds[n.layout.cpus[cpu].kind])
}
