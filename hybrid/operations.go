package hybrid

import "github.com/candor-project/candor/cpuset"

// resetScratch discards the previous plan's data.
func (n *Node) resetScratch() {
	n.plans++
	n.oldCPUs, n.oldFraction = cpuset.Set{}, -1
	n.shortage, n.isDomainShort = 0, false
	n.edits = n.edits[:0]
	n.others, n.otherSlots = n.others[:0], n.otherSlots[:0]
	n.scratch.fractions = n.scratch.fractions[:0]
}

// startPlan starts a plan of an operation on a slot.
func (n *Node) startPlan(p *Plan, op Op, slot int32) {
	n.resetScratch()
	p.Op, p.node, p.slot, p.seq = op, n, slot, n.plans
	p.version = n.version
	p.SharedBefore = n.sharedTime
	n.flexibleBefore, _ = n.flexibleSet()
}

// planAllocate fills p with the allocation of a container. If h is not nil, the container gets the CPUs of h.
func (n *Node) planAllocate(p *Plan, r *Request, h *Hint) error {
	if refusal := n.checkRequest(r); refusal != nil {
		return refusal
	}
	s := n.newSlot(r)
	n.startPlan(p, OpAllocate, s)
	n.addToSums(s)
	var err error
	if h == nil {
		err = n.allocate(s)
	} else {
		err = n.allocateHinted(s, h)
	}
	if err == nil {
		n.finish(p)
	} else {
		n.undo(0)
		err = n.refusalFor(s, err)
		p.node = nil // a failed plan cannot be committed
	}
	n.subtractFromSums(s)
	n.dropSlot(s)
	return err
}

// allocate gives a slot its CPUs with the node's algorithm.
func (n *Node) allocate(s int32) error {
	if n.sensitive+n.nodeNeed() > n.capacity() {
		return ErrNoCapacity
	}
	switch {
	case n.options.Algorithm == Paper:
		return n.paperAllocate(s)
	case n.slots[s].Class == Flexible:
		return n.admitFlexible(s)
	default:
		return n.candorAllocate(s)
	}
}

// planRelease fills p with the release of a container.
func (n *Node) planRelease(p *Plan, id string) error {
	s, ok := n.byID[id]
	if !ok {
		return n.unknownID(id)
	}
	n.startPlan(p, OpRelease, s)
	n.fillGrant(&p.Grant, s, &n.flexibleBefore)
	n.takeAll(s)
	n.subtractFromSums(s)
	n.finish(p)
	n.addToSums(s)
	return nil
}

// planResize fills p with a new limit and guarantee for a container. op is OpResize or OpRepair.
func (n *Node) planResize(p *Plan, id string, limit, guarantee Milli, op Op) error {
	s, ok := n.byID[id]
	if !ok {
		return n.unknownID(id)
	}
	slot := &n.slots[s]
	old, changed := slot.spec, slot.request()
	changed.Limit, changed.Guarantee = limit, guarantee
	if refusal := changed.checkAmounts(); refusal != nil {
		return refusal
	}
	domain, wholeCores := slot.domain, slot.wholeCores
	n.startPlan(p, op, s)
	n.fillGrant(&p.Before, s, &n.flexibleBefore)
	n.subtractFromSums(s)
	slot.spec = specOf(&changed)
	n.addToSums(s)
	err := n.reallocate(s, op, changed.Guaranteed() > old.guaranteed())
	if err == nil {
		n.finish(p)
		p.Grant.Lost = cpuset.Set{}
	} else {
		n.undo(0)
		err = n.refusalFor(s, err)
		p.node = nil // a failed plan cannot be committed
	}
	n.subtractFromSums(s)
	slot.spec, slot.domain, slot.wholeCores = old, domain, wholeCores
	n.addToSums(s)
	return err
}

// planRepair fills p with replacements for the lost CPUs of a container.
func (n *Node) planRepair(p *Plan, id string) error {
	s, ok := n.byID[id]
	if !ok {
		return n.unknownID(id)
	}
	r := &n.slots[s].spec
	return n.planResize(p, id, r.Limit, r.Guarantee, OpRepair)
}

// reallocate adjusts the CPUs of a slot to the slot's changed request. If the guaranteed time does not grow, the
// request is valid even on a node that has lost CPUs and has less capacity than its containers need.
func (n *Node) reallocate(s int32, op Op, grows bool) error {
	if grows && n.sensitive+n.nodeNeed() > n.capacity() {
		return ErrNoCapacity
	}
	if op == OpResize && !grows {
		n.recordShortage()
	}
	switch {
	case n.slots[s].Class == Flexible:
		return n.refitFlexible(s)
	case n.options.Algorithm == Paper:
		if op == OpResize {
			n.takeAll(s) // the paper has no resize, so the container is released and allocated again
		}
		n.takeFractions(s)
		return n.paperAllocate(s)
	default:
		return n.candorResize(s)
	}
}

// takeAll takes all CPUs of a slot.
func (n *Node) takeAll(s int32) {
	n.takeFractions(s)
	slot := &n.slots[s]
	for cpu := slot.exclusive.First(); cpu >= 0; cpu = slot.exclusive.First() {
		n.take(s, cpu)
	}
}

// takeFractions takes all fractions of a slot. It returns the CPU of the last fraction, or -1.
func (n *Node) takeFractions(s int32) (last int) {
	last = -1
	for slot := &n.slots[s]; slot.fractions() > 0; {
		last = int(slot.first.cpu)
		n.take(s, last)
	}
	return last
}

// finish completes a plan after the operation has given the slot its CPUs or taken them away. It lowers the shared time, records all
// changes in the plan, and undoes the changes on the node.
func (n *Node) finish(p *Plan) {
	own := p.slot
	if p.Op == OpRelease {
		own = -1
	}
	n.improveWithin(own, p.slot)
	set, _ := n.flexibleSet()
	p.Shared = n.sharedOn(&set)
	p.sharedCPUsAfter, p.lent = int(n.sharedCount), set.Intersect(n.fractional.Set())
	if p.Op != OpRelease {
		n.fillGrant(&p.Grant, p.slot, &set)
	}
	n.listAffected(p, &set)
	p.domain, p.wholeCores = n.slots[p.slot].domain, n.slots[p.slot].wholeCores
	p.edits = n.edits
	n.undo(0)
	n.fillBefore(p)
}

// improveWithin lowers the shared time with moves. Its budget is Options.Moves minus the moves that the operation has
// made already. slot is the slot of the operation. own is the same slot, or -1 for a release.
func (n *Node) improveWithin(own, slot int32) {
	if n.options.Algorithm == Candor {
		n.improve(own, n.options.Moves-n.movesSoFar(slot))
	}
}

// movesSoFar returns the number of fractions of other containers that the plan has moved.
func (n *Node) movesSoFar(own int32) int {
	moves := 0
	for i := range n.edits {
		if e := &n.edits[i]; e.slot != own && e.isGive && e.milli < 1000 {
			moves++
		}
	}
	return moves
}
