package hybrid

import (
	"fmt"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// Restore adds existing grants without moving any container: grants from a saved state, and grants of running containers. CPUs
// that the node no longer has are stored in Grant.Lost. Restore recomputes the quotas, the weights and the cpusets of flexible
// grants. The error is a *Refusal that names the invalid or contradicting grant. After an error, the node is unchanged.
func (n *Node) Restore(grants []Grant) error {
	n.version++
	n.resetScratch()
	n.slots = slices.Grow(n.slots, max(len(n.order)+len(grants)-len(n.slots), 0))
	for i := range grants {
		s, err := n.restoreOne(&grants[i])
		if err == nil {
			continue
		}
		n.undo(0)
		if s >= 0 {
			n.subtractFromSums(s)
			n.dropSlot(s)
		}
		for j := i - 1; j >= 0; j-- {
			s := n.byID[grants[j].ID]
			n.subtractFromSums(s)
			n.unlink(s)
			n.dropSlot(s)
		}
		return err
	}
	n.leaveCores()
	n.sharedTime = n.currentShared()
	return nil
}

// leaveCores removes flexible containers from the domain of whole cores if the domain lacks time or has no core. This happens if cores have
// lost a CPU or do not count as whole anymore. Without leaveCores, the node would refuse all new containers. The containers with the
// largest guarantees leave first, so that the result does not depend on the order of the containers. If the time on the node does not
// suffice either, the containers retain their domain.
func (n *Node) leaveCores() {
	if n.wholeCoresDemand().count == 0 {
		return
	}
	_, enough := n.flexibleSet()
	var left []int32
	for !enough && n.wholeCoresDemand().count > 0 {
		s := n.largestOnCores()
		n.setDomain(s, wholeNode)
		left = append(left, s)
		_, enough = n.flexibleSet()
	}
	if enough || n.wholeCores.IsEmpty() { // without a core, the cpusets would be empty
		return
	}
	for _, s := range left {
		n.setDomain(s, int32(len(n.domains)-1))
	}
}

// largestOnCores returns the container with the largest guarantee in the domain of whole cores; -1 if the domain has no
// container.
func (n *Node) largestOnCores() (largest int32) {
	largest = -1
	for _, s := range n.order {
		slot := &n.slots[s]
		if slot.domain == wholeNode || n.domains[slot.domain].kind != WholeCores {
			continue
		}
		if largest < 0 || slot.guaranteed() > n.slots[largest].guaranteed() {
			largest = s
		}
	}
	return largest
}

// restoreOne restores a grant. On an error, s is the grant's slot, or -1 if the grant has no slot yet.
func (n *Node) restoreOne(g *Grant) (s int32, err error) {
	if refusal := n.checkRequest(&g.Request); refusal != nil {
		return -1, refusal
	}
	s = n.newSlot(&g.Request)
	slot := &n.slots[s]
	if g.Class == Flexible {
		slot.domain = n.domainOf(g)
		if remaining := g.CPUs.Intersect(n.usable); remaining.IsEmpty() {
			lost := g.Lost.Union(g.CPUs).Minus(n.usable)
			slot.ensureDetails().lost = lost
		}
		n.addToSums(s)
		n.link(s)
		return s, nil
	}
	n.addToSums(s)
	lost := g.Lost.Union(g.Exclusive).Minus(n.usable)
	slot.ensureDetails().lost = lost
	slot.wholeCores = g.Topology == WholeCores && n.isTopologyMet(g) && n.hasUsableCores(&g.CPUs)
	if err := n.restoreCPUs(s, g); err != nil {
		return s, err
	}
	n.link(s)
	return s, nil
}

// restoreCPUs gives a slot those CPUs of a grant that the node still has.
func (n *Node) restoreCPUs(s int32, g *Grant) error {
	badCPU := func(cpu int, noun string) error {
		return badRequest(g.ID, "CPU %d: %s", cpu, noun)
	}
	if sum := g.cpuSum(); sum != g.Limit && g.Lost.IsEmpty() {
		return badRequest(g.ID, "its CPUs add up to %s, its limit is %s", sum, g.Limit)
	}
	exclusive := g.Exclusive.Intersect(n.usable)
	for cpu := exclusive.First(); cpu >= 0; cpu = exclusive.Next(cpu + 1) {
		if n.load[cpu].sharers > 0 {
			return badCPU(cpu, "exclusive to this container, and another has it too")
		}
		n.give(s, cpu, 1000)
	}
	for _, f := range g.Fractions {
		switch {
		case f.CPU < 0 || f.CPU >= cpuset.Max || f.Milli < 1 || f.Milli > 999:
			return badCPU(f.CPU, fmt.Sprintf("a fraction of %dm: must be 1m to 999m", f.Milli))
		case !n.usable.Contains(f.CPU):
			n.slots[s].ensureDetails().lost.Add(f.CPU)
			continue
		case n.slots[s].exclusive.Contains(f.CPU) || n.slots[s].fractionOn(f.CPU) > 0:
			return badCPU(f.CPU, "twice in the same grant")
		case n.load[f.CPU].room() < f.Milli:
			return badCPU(f.CPU, fmt.Sprintf("no room for a fraction of %dm", f.Milli))
		}
		n.give(s, f.CPU, f.Milli)
	}
	return nil
}

// cpuSum returns the CPU time of a grant's exclusive CPUs and fractions.
func (g *Grant) cpuSum() Milli {
	sum := Milli(g.Exclusive.Count()) * 1000
	for _, f := range g.Fractions {
		sum += f.Milli
	}
	return sum
}

// isTopologyMet reports whether the CPUs of a saved grant met the grant's topology policy.
func (n *Node) isTopologyMet(g *Grant) bool {
	return n.options.Algorithm == Candor && (g.Policy == Strict || g.TopologyMet)
}

// isWholeCores reports whether a set consists of whole cores. A core with a CPU that is offline or not usable is not a
// whole core.
func (n *Node) isWholeCores(set *cpuset.Set) bool {
	return !n.partial.Overlaps(set) && n.hasUsableCores(set)
}

// hasUsableCores reports whether a set has all usable CPUs of a core, for each core of which it has a usable CPU. So the result
// for a container on whole cores does not change if a core loses a CPU.
func (n *Node) hasUsableCores(set *cpuset.Set) bool {
	usable := set.Intersect(n.usable)
	for cpu := usable.First(); cpu >= 0; cpu = usable.Next(cpu + 1) {
		if !n.cores[n.layout.cpus[cpu].core].SubsetOf(&usable) {
			return false
		}
	}
	return true
}

// domainOf derives the domain of a flexible grant from the grant's topology policy and CPUs.
func (n *Node) domainOf(g *Grant) int32 {
	cpus := g.CPUs.Intersect(n.usable)
	if g.Topology == Prefer || g.Topology == NoTopology || cpus.IsEmpty() || !n.isTopologyMet(g) {
		return wholeNode
	}
	for d := range n.domains {
		if n.domains[d].kind != g.Topology {
			continue
		}
		if g.Topology == WholeCores && n.hasUsableCores(&cpus) || g.Topology != WholeCores && cpus.SubsetOf(n.domainCPUs(int32(d))) {
			return int32(d)
		}
	}
	return wholeNode
}
