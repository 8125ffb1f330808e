package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A Fraction is the part of a fractional CPU that a sensitive grant has.
type Fraction struct {
	CPU   int   // CPU id
	Milli Milli // 1 to 999
}

// A Grant is what a container holds.
type Grant struct {
	Request

	CPUs      cpuset.Set // its cpuset
	Exclusive cpuset.Set // the CPUs of it that no other container has
	Fractions []Fraction // by rising CPU id; nil for flexible grants
	Quota     Milli      // 0: none, the cpuset alone enforces the limit (or there is no limit)
	// Weight decides who gets the time of a CPU that several containers want,
	// in milli-CPU: 1000 is the kernel's default (cpu.shares 1024, cpu.weight 100).
	Weight Milli
	// TopologyMet tells whether a best-effort container got its topology wish; a
	// strict one always has.
	TopologyMet bool
	// Lost are CPUs that the grant held when Restore found them gone from the
	// node. PlanRepair replaces them.
	Lost cpuset.Set
}

// same reports whether two grants of one container are the same but for weights.
func (g *Grant) same(h *Grant) bool {
	return g.CPUs == h.CPUs && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions)
}

// A Change is another container's grant before and after a plan.
type Change struct {
	Before, After Grant
}

// Op is what a plan does.
type Op uint8

const (
	OpAllocate Op = iota
	OpRelease
	OpResize
	OpRepair
)

// A Plan is what an operation would do. Commit makes it true. Its slices are
// memory of the node: it can be read and committed until the node plans or commits anew.
// A clone can be read for ever, and committed until the node commits another plan.
type Plan struct {
	Op     Op
	Grant  Grant    // the container's grant after the operation; for a release, before it
	Before Grant    // its grant before a resize or repair
	Others []Change // the other containers whose CPUs change, in order of arrival
	Moves  int      // fractions of other containers that change CPU

	SharedBefore, Shared Milli // shared time on the node before and after

	node       *Node
	slot       int32
	domain     int32
	wholeCores bool
	sharedLeft int        // shared CPUs after it
	lent       cpuset.Set // fractional CPUs that flexible containers use after it
	version    uint64     // of the node
	seq        uint64     // of the plan; 0 for a clone, whose edits are its own
	edits      []edit
}

// Clone returns a copy whose memory is its own.
func (p *Plan) Clone() *Plan {
	c := *p
	c.Grant.Fractions = slices.Clone(p.Grant.Fractions)
	c.Before.Fractions = slices.Clone(p.Before.Fractions)
	c.Others = slices.Clone(p.Others)
	for i := range c.Others {
		o := &c.Others[i]
		o.Before.Fractions = slices.Clone(o.Before.Fractions)
		o.After.Fractions = slices.Clone(o.After.Fractions)
	}
	c.edits = slices.Clone(p.edits)
	if p.seq == 0 || p.node != nil && p.seq == p.node.plans {
		c.seq = 0
	}
	return &c
}

// Plan, PlanRelease, PlanResize and PlanRepair are small enough to be inlined,
// so that a plan which does not outlive its caller costs no allocation.

// Plan plans the allocation that a container asks for. It changes nothing.
// The error is a *Refusal.
func (n *Node) Plan(r Request) (*Plan, error) {
	p := new(Plan)
	return p, n.planAllocate(p, &r, nil)
}

// PlanRelease plans the end of a container, and lowers sharing where room
// appears. The error is a *Refusal of kind ErrUnknownID.
func (n *Node) PlanRelease(id string) (*Plan, error) {
	p := new(Plan)
	return p, n.planRelease(p, id)
}

// PlanResize plans a new limit for a container, and for a flexible one a new
// guarantee (0: the limit). Where that cannot be done the error, a *Refusal, says why, and
// the present grant stays in force.
func (n *Node) PlanResize(id string, limit, guarantee Milli) (*Plan, error) {
	p := new(Plan)
	return p, n.planResize(p, id, limit, guarantee, OpResize)
}

// PlanRepair plans new CPUs for those a grant has lost (Grant.Lost). The error
// is a *Refusal; the grant keeps what it still has.
func (n *Node) PlanRepair(id string) (*Plan, error) {
	p := new(Plan)
	return p, n.planRepair(p, id)
}

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
