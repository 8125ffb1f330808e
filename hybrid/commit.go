package hybrid

import "github.com/candor-project/candor/cpuset"

// Commit makes a plan true. The only error is ErrStalePlan.
func (n *Node) Commit(p *Plan) error {
	if p == nil || p.node != n || p.version != n.version || p.seq != 0 && p.seq != n.plans {
		return ErrStalePlan
	}
	n.version++
	s := p.slot
	switch p.Op {
	case OpAllocate:
		s = n.newSlot(&p.Grant.Request)
		n.setRequest(s, p)
		n.redo(p.edits)
		n.link(s)
	case OpRelease:
		n.redo(p.edits)
		n.unpromise(s)
		n.unlink(s)
		n.dropSlot(s)
	default:
		n.unpromise(s)
		n.setRequest(s, p)
		if d := n.slots[s].details; d != nil {
			d.lost = cpuset.Set{}
		}
		n.redo(p.edits)
	}
	n.sharedTime = n.sharedNow()
	return nil
}

// setRequest gives a slot the request of a plan's grant.
func (n *Node) setRequest(s int32, p *Plan) {
	slot := &n.slots[s]
	slot.wants, slot.domain, slot.wholeCores = wantsOf(&p.Grant.Request), p.domain, p.wholeCores
	n.promise(s)
}

// promise counts what a slot asks for; unpromise undoes it.
func (n *Node) promise(s int32) {
	slot := &n.slots[s]
	if slot.Class == Sensitive {
		n.sensitive += slot.Limit
		return
	}
	n.flexible.add(slot.guaranteed())
	if slot.domain >= 0 {
		n.demandOf(slot.domain).add(slot.guaranteed())
		n.confined++
	}
}

func (n *Node) unpromise(s int32) {
	slot := &n.slots[s]
	if slot.Class == Sensitive {
		n.sensitive -= slot.Limit
		return
	}
	n.flexible.remove(slot.guaranteed())
	if slot.domain >= 0 {
		n.demandOf(slot.domain).remove(slot.guaranteed())
		n.confined--
	}
}
