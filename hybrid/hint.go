package hybrid

import (
	"cmp"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A Hint is the set of CPUs that a remote planner, such as a Kubernetes scheduler, expects a sensitive container
// to get.
type Hint struct {
	Exclusive cpuset.Set
	Fractions []Fraction // in ascending order of CPU id
}

// CPUs returns the exclusive and fractional CPUs of the hint. It ignores invalid CPU ids.
func (h *Hint) CPUs() cpuset.Set {
	cpus := h.Exclusive
	for _, f := range h.Fractions {
		if f.CPU >= 0 && f.CPU < cpuset.Max {
			cpus.Add(f.CPU)
		}
	}
	return cpus
}

// Matches reports whether a grant has exactly the CPUs and fractions of the hint.
func (h *Hint) Matches(g *Grant) bool {
	return g.Class == Sensitive && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions)
}

// PlanHinted plans like n.Plan, but with a hint from an untrusted source. The container gets the CPUs of the hint if they are
// available without moves and the result is at least as good as the node's own plan (isNoWorseThan). Otherwise PlanHinted returns
// the node's own plan. taken reports whether the plan has the CPUs of the hint.
func (n *Node) PlanHinted(r Request, h *Hint) (p *Plan, taken bool, err error) {
	p = new(Plan)
	if err := n.planAllocate(p, &r, nil); err != nil || h.Matches(&p.Grant) {
		return p, err == nil, err
	}
	if n.options.Algorithm != Candor { // the paper's algorithm determines the CPUs, so a hint cannot change them
		return p, false, nil
	}
	figures, ownPlan := n.outcomeOf(p), p.Clone()
	hinted := new(Plan)
	if n.planAllocate(hinted, &r, h) == nil && h.Matches(&hinted.Grant) {
		if o := n.outcomeOf(hinted); o.isNoWorseThan(&figures) {
			return hinted, true, nil
		}
	}
	return ownPlan, false, nil
}

// PlanAt plans a sensitive container on exactly the CPUs of the hint, without moves of other containers. The error
// is a *Refusal. Its kind is ErrViewImpossible if the CPUs are not available.
func (n *Node) PlanAt(r Request, h *Hint) (*Plan, error) {
	p := new(Plan)
	if err := n.planAllocate(p, &r, h); err != nil {
		return nil, err
	}
	if !h.Matches(&p.Grant) {
		return nil, &Refusal{ID: r.ID, Kind: ErrViewImpossible, Text: "not on the CPUs that it was planned on"}
	}
	return p, nil
}

// allocateHinted gives a new sensitive container the CPUs of a hint.
func (n *Node) allocateHinted(s int32, h *Hint) error {
	slot := &n.slots[s]
	if slot.Class != Sensitive || n.sensitive+n.nodeNeed() > n.capacity() || !n.canGive(s, h) {
		return ErrViewImpossible
	}
	cpus, shared := h.CPUs(), n.shared.Set()
	slot.wholeCores = slot.Topology == WholeCores && cpus.SubsetOf(&shared) && n.isWholeCores(&cpus)
	n.giveWhole(s, &h.Exclusive)
	for _, f := range h.Fractions {
		n.give(s, f.CPU, f.Milli)
	}
	if slot.Policy == Strict && !n.meetsTopology(slot) || n.sharedIfValid() == impossible {
		return ErrViewImpossible
	}
	return nil
}

// canGive reports whether a hint has exactly the whole CPUs and the fraction that the container needs, and whether all
// CPUs of the hint are available.
func (n *Node) canGive(s int32, h *Hint) bool {
	whole, fraction := n.missing(s)
	free := n.available()
	if h.Exclusive.Count() != whole || !h.Exclusive.SubsetOf(&free) {
		return false
	}
	if fraction == 0 || len(h.Fractions) != 1 {
		return fraction == 0 && len(h.Fractions) == 0
	}
	hinted := h.Fractions[0]
	if hinted.Milli != fraction || h.Exclusive.Contains(hinted.CPU) {
		return false
	}
	return free.Contains(hinted.CPU) || n.fractional.Contains(hinted.CPU) && n.load[hinted.CPU].room() >= fraction
}

// An outcome holds the figures by which PlanHinted compares two plans: the costs of a plan, and the capacity that
// remains for later containers.
type outcome struct {
	costs     [9]int // of the plan; a lower value is better
	remaining [5]int // capacity for later containers; a higher value is better
	l3s       []int  // free CPUs of each L3 domain, in descending order
	numas     []int  // free CPUs of each NUMA node, in descending order
}

// outcomeOf returns the outcome of an allocation plan, which must be the node's latest plan.
func (n *Node) outcomeOf(p *Plan) (o outcome) {
	n.redo(p.edits)
	cpus := &p.Grant.CPUs
	kinds, fastest := n.countKinds(cpus)
	o.costs = [...]int{int(p.Shared), p.Moves, kinds, fastest, n.countSlowL3s(cpus),
		countOverlaps(n.numas, cpus), countOverlaps(n.l3s, cpus), n.splitCores(cpus), 1}
	if p.Grant.TopologyMet {
		o.costs[8] = 0
	}
	room, shared := Milli(0), n.shared.Set()
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		room = max(room, n.load[cpu].room())
	}
	o.remaining = [...]int{int(n.sharedCount), n.wholeCores.Count(), countWholeDomains(n.l3s, &shared), countWholeDomains(n.numas, &shared), int(room)}
	o.l3s, o.numas = sortedFree(n.inL3), sortedFree(n.inNUMA)
	n.edits = p.edits
	n.undo(0)
	return o
}

// countWholeDomains counts the CPUs of the domains whose CPUs are all in the set free.
func countWholeDomains(domains []cpuset.Set, free *cpuset.Set) (cpus int) {
	for i := range domains {
		if domains[i].SubsetOf(free) {
			cpus += domains[i].Count()
		}
	}
	return cpus
}

// sortedFree returns the numbers of free CPUs in descending order.
func sortedFree(counts []poolCount) []int {
	sorted := make([]int, len(counts))
	for i, count := range counts {
		sorted[i] = int(count.free)
	}
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Compare(b, a) })
	return sorted
}

// isNoWorseThan reports whether an outcome is at least as good as another outcome in every figure: each cost is equal or lower,
// and each remaining capacity is equal or higher. It compares the lists of free CPUs lexicographically.
func (o *outcome) isNoWorseThan(other *outcome) bool {
	for i := range o.costs {
		if o.costs[i] > other.costs[i] {
			return false
		}
	}
	for i := range o.remaining {
		if o.remaining[i] < other.remaining[i] {
			return false
		}
	}
	return slices.Compare(o.l3s, other.l3s) >= 0 && slices.Compare(o.numas, other.numas) >= 0
}
