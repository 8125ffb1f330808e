package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A Fraction is the part of a fractional CPU that belongs to a sensitive grant.
type Fraction struct {
	CPU   int   // CPU id
	Milli Milli // 1 to 999
}

// A Grant is the set of CPUs, the quota and the weight of a container.
type Grant struct {
	Request

	CPUs      cpuset.Set // the container's cpuset: its exclusive and fractional CPUs, or the CPUs of flexible containers
	Exclusive cpuset.Set // the CPUs that no other container uses
	Fractions []Fraction // in ascending order of CPU id; nil for flexible grants
	Quota     Milli      // 0: no quota (the cpuset enforces the limit, or there is no limit)
	// Weight is the share of the container when containers compete for a CPU, in milli-CPU: 1000 is the
	// kernel's default (cpu.shares 1024, cpu.weight 100).
	Weight Milli
	// TopologyMet reports whether the CPUs meet the topology policy. It is true for a strict container, except after a
	// Restore on a node with other domains or fewer CPUs than before.
	TopologyMet bool
	// Lost is the set of the grant's CPUs that the node no longer had at Restore. PlanRepair replaces these CPUs.
	Lost cpuset.Set
}

// sameCPUs reports whether two grants of a container have the same CPUs and fractions. Their weights may differ.
func (g *Grant) sameCPUs(h *Grant) bool {
	return g.CPUs == h.CPUs && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions)
}

// A Change is the grant of another container before and after a plan.
type Change struct {
	Before, After Grant
}

// An Op is the operation that a plan performs.
type Op uint8

// The operations. Node.Plan plans OpAllocate; PlanRelease, PlanResize and PlanRepair plan the others.
const (
	OpAllocate Op = iota
	OpRelease
	OpResize
	OpRepair
)

// A Plan is the result of an operation that is not committed yet. Its slices are memory of the node, so read and commit
// the plan before the node's next plan or commit. A Clone can be read at any time, and can be committed until the node
// commits another plan.
type Plan struct {
	Op     Op
	Grant  Grant    // the container's grant after the operation; for a release, before it
	Before Grant    // the container's grant before a resize or repair
	Others []Change // changes of the other containers whose CPUs change, in order of arrival
	Moves  int      // number of fractions of other containers that change CPU

	SharedBefore, Shared Milli // shared time of the node before and after the operation

	node            *Node
	slot            int32
	domain          int32      // slot.domain after the plan
	wholeCores      bool       // slot.wholeCores after the plan
	sharedCPUsAfter int        // number of shared CPUs after the plan
	lent            cpuset.Set // fractional CPUs that flexible containers use after the plan
	version         uint64     // Node.version when the plan was made
	seq             uint64     // number of the plan (scratch.plans); 0 for a clone, whose edits are a copy
	edits           []edit
}

// Clone returns a copy that shares no memory with the node.
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

// Plan, PlanRelease, PlanResize and PlanRepair are small enough for inlining, so that a plan that does not
// outlive the caller needs no heap allocation.

// Plan plans the allocation of a container, and changes nothing. The error is a *Refusal.
func (n *Node) Plan(r Request) (*Plan, error) {
	p := new(Plan)
	return p, n.planAllocate(p, &r, nil)
}

// PlanRelease plans the release of a container. The plan uses the released CPUs to lower the shared time. The error is a
// *Refusal of kind ErrUnknownID.
func (n *Node) PlanRelease(id string) (*Plan, error) {
	p := new(Plan)
	return p, n.planRelease(p, id)
}

// PlanResize plans a new limit for a container and, for a flexible container, a new guarantee (0 means the limit). The
// error is a *Refusal. After an error, the present grant remains valid.
func (n *Node) PlanResize(id string, limit, guarantee Milli) (*Plan, error) {
	p := new(Plan)
	return p, n.planResize(p, id, limit, guarantee, OpResize)
}

// PlanRepair plans replacements for the CPUs that a grant has lost (Grant.Lost). The error is a *Refusal. After an
// error, the grant retains its remaining CPUs.
func (n *Node) PlanRepair(id string) (*Plan, error) {
	p := new(Plan)
	return p, n.planRepair(p, id)
}

// Commit applies a plan. The only error is ErrStalePlan.
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
		n.subtractFromSums(s)
		n.unlink(s)
		n.dropSlot(s)
	default:
		n.subtractFromSums(s)
		n.setRequest(s, p)
		if d := n.slots[s].details; d != nil {
			d.lost = cpuset.Set{}
		}
		n.redo(p.edits)
	}
	n.sharedTime = n.currentShared()
	return nil
}

// setRequest sets the request of a slot to the request of a plan's grant.
func (n *Node) setRequest(s int32, p *Plan) {
	slot := &n.slots[s]
	slot.spec, slot.domain, slot.wholeCores = specOf(&p.Grant.Request), p.domain, p.wholeCores
	n.addToSums(s)
}

// addToSums adds a slot's limit or guarantee to the node's sums.
func (n *Node) addToSums(s int32) {
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

// subtractFromSums reverts addToSums.
func (n *Node) subtractFromSums(s int32) {
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
