package hybrid

// candorResize changes a sensitive container's CPUs to fit its changed limit.
// It keeps as many of them as it can: all exclusive ones when it grows.
func (n *Node) candorResize(s int32) error {
	slot := &n.slots[s]
	if slot.wholeCores {
		mark := n.mark()
		err := n.resizeCores(s)
		if err == nil || slot.Policy == Strict {
			return err
		}
		n.undo(mark)
		slot.wholeCores = false // from here on like one that did not get its wish
	}
	n.old = slot.cpus()
	n.oldFraction = n.takeFractions(s)
	if part := slot.Limit % 1000; slot.Immovable && n.oldFraction >= 0 && part > 0 && n.load[n.oldFraction].room() >= part {
		n.give(s, n.oldFraction, part)
	}
	for whole := int(slot.Limit / 1000); slot.exclusive.Count() > whole; {
		n.take(s, n.leastNeeded(s))
	}
	return n.candorAllocate(s)
}

// leastNeeded returns the exclusive CPU that a container can do without best: in
// the NUMA node, then L3 domain, then core where it has the fewest; the highest of equals.
func (n *Node) leastNeeded(s int32) int {
	holds := n.slots[s].exclusive.Set()
	best, bestKey := -1, [3]int{}
	for cpu := holds.First(); cpu >= 0; cpu = holds.Next(cpu + 1) {
		at := n.layout.cpus[cpu]
		key := [3]int{holds.CountIn(&n.numas[at.numa]), holds.CountIn(&n.l3s[at.l3]), holds.CountIn(&n.cores[at.core])}
		if best < 0 || !lessKey(&bestKey, &key) {
			best, bestKey = cpu, key
		}
	}
	return best
}

// resizeCores is candorResize for a container that has whole cores.
func (n *Node) resizeCores(s int32) error {
	slot := &n.slots[s]
	last := -1
	for slot.fractions() > 0 { // its core is its own: hold it as a whole meanwhile
		last = int(slot.first.cpu)
		n.take(s, last)
		n.give(s, last, 1000)
	}
	want, fraction := slot.Limit.CPUs(), slot.Limit%1000
	shrinks := slot.exclusive.Count() > want
	last = n.dropCores(s, want, last, fraction == 0)
	if missing := want - slot.exclusive.Count(); missing != 0 {
		free, holds := n.available(), slot.exclusive.Set()
		picked, lastPicked, ok := n.pickCores(&free, &holds, missing)
		if !ok || shrinks { // its cores cannot be cut to fit, and it is not moved to others
			return ErrViewImpossible
		}
		n.giveWhole(s, &picked)
		if last < 0 {
			last = lastPicked
		}
	}
	if fraction > 0 {
		if last < 0 {
			holds := slot.exclusive.Set()
			last = holds.Last()
		}
		n.take(s, last)
		n.give(s, last, fraction)
	}
	if n.settle() == impossible {
		return ErrViewImpossible
	}
	return nil
}

// dropCores takes whole cores from a container until it has want CPUs or less. Where it keeps
// no fraction, the core that carried it, last, goes first. It returns last, or -1 if that has gone.
func (n *Node) dropCores(s int32, want, last int, lastFirst bool) int {
	slot := &n.slots[s]
	for slot.exclusive.Count() > want {
		cpu := n.leastNeeded(s)
		if lastFirst && last >= 0 { // so that only exclusive CPUs are kept
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
