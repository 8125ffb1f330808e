package hybrid

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// minWeight is the smallest weight of a container. A flexible container without a guarantee has this weight.
const minWeight Milli = 10

// fillGrant fills g with the grant of a slot. flexible is the set of CPUs of flexible containers. g.Fractions is
// memory that the node reuses for the next plan.
func (n *Node) fillGrant(g *Grant, s int32, flexible *cpuset.Set) {
	slot := &n.slots[s]
	g.Request = slot.request()
	g.Lost = slot.lost()
	g.TopologyMet = n.meetsTopology(slot)
	g.Quota = slot.Limit
	g.Fractions = nil
	if slot.Class == Flexible {
		g.CPUs = flexible.Intersect(*n.domainCPUs(slot.domain))
		g.Exclusive = cpuset.Set{}
		g.Weight = max(slot.guaranteed(), minWeight)
		return
	}
	g.Exclusive = slot.exclusive.Set()
	g.CPUs = slot.cpus()
	if count := slot.fractions(); count > 0 {
		from := len(n.scratch.fractions)
		for i := range count {
			n.scratch.fractions = append(n.scratch.fractions, slot.fraction(i).fraction())
		}
		g.Fractions = n.scratch.fractions[from:len(n.scratch.fractions):len(n.scratch.fractions)]
	}
	if n.options.Algorithm == Candor && Milli(slot.exclusive.Count())*1000 == slot.Limit && g.Fractions == nil {
		g.Quota = 0
	}
	g.Weight = weight(g)
}

// meetsTopology reports whether the CPUs of a slot meet its topology policy.
func (n *Node) meetsTopology(slot *slot) bool {
	switch policy := slot.Topology; {
	case policy == Prefer || policy == NoTopology || n.options.Algorithm == Paper:
		return true
	case slot.Class == Flexible:
		return slot.domain != wholeNode
	case policy == WholeCores:
		return slot.wholeCores
	case policy == SingleNUMA:
		cpus := slot.cpus()
		return isInSingle(n.numas, &cpus)
	default:
		cpus := slot.cpus()
		return isInSingle(n.l3s, &cpus)
	}
}

// isInSingle reports whether a single domain contains all CPUs.
func isInSingle(domains []cpuset.Set, cpus *cpuset.Set) bool {
	for i := range domains {
		if domains[i].Overlaps(cpus) {
			return cpus.SubsetOf(&domains[i])
		}
	}
	return true
}

// weight returns the weight of a sensitive grant. The kernel divides a group's weight among the CPUs on which the
// group runs. So a container with 1 CPU and 100m of a second CPU needs twice the weight of a container with only
// these 100m.
func weight(g *Grant) Milli {
	if len(g.Fractions) == 0 {
		return max(g.Limit, minWeight)
	}
	var sum Milli
	for _, f := range g.Fractions {
		sum += f.Milli
	}
	return Milli(g.CPUs.Count()) * sum / Milli(len(g.Fractions))
}

// listAffected lists in n.others the containers whose CPUs the plan may change, with their grants after the plan. It
// omits the plan's own container. set is the CPUs of flexible containers after the plan.
func (n *Node) listAffected(p *Plan, set *cpuset.Set) {
	touched := false
	n.touched = slices.Grow(n.touched[:0], len(n.slots))[:len(n.slots)]
	for i := range n.edits {
		if s := n.edits[i].slot; s != p.slot {
			n.touched[s] = n.plans
			touched = true
		}
	}
	flexible := n.flexible.count > 0 && (*set != n.flexibleBefore || n.hasConfined())
	if !touched && !flexible {
		return
	}
	for _, s := range n.order {
		slot := &n.slots[s]
		if s == p.slot || n.touched[s] != n.plans && !(flexible && slot.Class == Flexible) {
			continue
		}
		n.others, n.otherSlots = append(n.others, Change{}), append(n.otherSlots, s)
		n.fillGrant(&n.others[len(n.others)-1].After, s, set)
	}
}

// fillBefore adds the grants before the plan to the containers that listAffected has listed. It drops the containers whose
// CPUs do not change, and counts the moves.
func (n *Node) fillBefore(p *Plan) {
	changed := n.others[:0]
	p.Moves = 0
	for i := range n.others {
		c := &n.others[i]
		n.fillGrant(&c.Before, n.otherSlots[i], &n.flexibleBefore)
		if !c.Before.sameCPUs(&c.After) {
			p.Moves += movedFractions(c)
			changed = append(changed, *c)
		}
	}
	n.others = changed
	p.Others = changed
	if len(changed) == 0 {
		p.Others = nil
	}
}

// movedFractions counts the fractions after a change that are on CPUs that the grant did not have before.
func movedFractions(c *Change) int {
	moved := 0
	for _, f := range c.After.Fractions {
		if !c.Before.CPUs.Contains(f.CPU) {
			moved++
		}
	}
	return moved
}
