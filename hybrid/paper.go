package hybrid

import "github.com/candor-project/candor/cpuset"

// This file implements Algorithm 1 of Bacou et al., "Your Containers should be WYSIWYG" (SCC 2019), as published. P1,
// P2 and P3 of the paper are the exclusive, fractional and shared CPUs. The listing of the algorithm leaves two points
// open, for which this file follows the text of the paper: the lowest CPU id comes first, and CHOOSE_PROCS prefers the
// emptiest CPU (section IV-E).

// paperAllocate is ALLOCATE of the paper, after its capacity test.
func (n *Node) paperAllocate(s int32) error {
	slot := &n.slots[s]
	if slot.Class == Sensitive {
		if err := n.paperPlace(s); err != nil {
			return err
		}
	}
	// A cpuset must not be empty, so the last CPU remains for the flexible containers.
	if n.flexible.count > 0 && n.shared.IsEmpty() && n.fractional.IsEmpty() {
		n.undo(0)
		return ErrNoCapacity
	}
	return nil
}

// paperPlace gives a sensitive container its whole CPUs and its fraction.
func (n *Node) paperPlace(s int32) error {
	policy := n.slots[s].Policy
	whole, fraction := n.missing(s)
	mark := n.mark()
	exclusive := n.shared.Set().Lowest(whole)
	n.giveWhole(s, &exclusive)

	missing := whole - exclusive.Count()
	rest := Milli(missing)*1000 + fraction
	maxCPUs := rest.CPUs()
	switch {
	case rest == 0:
		return nil
	case missing == 0:
		if n.paperFraction(s, fraction) {
			return nil
		}
		maxCPUs = 0
	case fraction == 0:
		maxCPUs = 0
	}
	if n.chooseProcs(s, maxCPUs, rest) {
		return nil
	}
	if policy == BestEffort {
		if n.chooseProcs(s, cpuset.Max, rest) {
			return nil
		}
		n.undo(mark)
		return ErrNoCapacity
	}
	n.undo(mark)
	return ErrViewImpossible
}

// paperFraction puts a fraction on the emptiest fractional CPU. If the fraction does not fit there, paperFraction puts
// it on a shared CPU, which becomes fractional. It reports whether it succeeded.
func (n *Node) paperFraction(s int32, fraction Milli) bool {
	if n.chooseProcs(s, 1, fraction) {
		return true
	}
	cpu := n.shared.First()
	if cpu < 0 {
		return false
	}
	n.give(s, cpu, fraction)
	return true
}

// chooseProcs is CHOOSE_PROCS of the paper. It divides an amount among at most maxCPUs fractional CPUs, the emptiest
// first. Each CPU takes as much of the amount as fits. It reports whether it succeeded; on failure it gives nothing.
func (n *Node) chooseProcs(s int32, maxCPUs int, amount Milli) bool {
	mark := n.mark()
	for ; amount > 0 && maxCPUs > 0; maxCPUs-- {
		best := -1
		for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
			if n.slots[s].fractionOn(cpu) == 0 && n.load[cpu].room() > 0 &&
				(best < 0 || n.load[cpu].room() > n.load[best].room()) {
				best = cpu
			}
		}
		if best < 0 {
			break
		}
		part := min(amount, n.load[best].room())
		n.give(s, best, part)
		amount -= part
	}
	if amount > 0 {
		n.undo(mark)
		return false
	}
	return true
}
