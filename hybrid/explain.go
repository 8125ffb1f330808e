package hybrid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A Step is a single decision of a plan.
type Step struct {
	Kind string     `json:"kind"` // "whole-cpus", "fraction", "flexible", "topology", "quota", "move", "shared", "release"
	CPUs cpuset.Set `json:"cpus"`
	Text string     `json:"text"` // a single line
}

// Explain returns the decisions of a plan with their reasons, a step for each decision.
func (p *Plan) Explain() []Step {
	if p.node == nil {
		return nil
	}
	var steps []Step
	add := func(kind string, cpus cpuset.Set, format string, args ...any) {
		steps = append(steps, Step{kind, cpus, fmt.Sprintf(format, args...)})
	}
	g := &p.Grant
	switch {
	case p.Op == OpRelease:
		add("release", g.CPUs, "gives back CPUs %s", g.CPUs)
	case g.Class == Flexible:
		add("flexible", g.CPUs, "shares CPUs %s with the other flexible containers%s", g.CPUs, p.explainLent())
	default:
		p.explainSensitive(add)
	}
	for i := range p.Others {
		explainChange(&p.Others[i], add)
	}
	add("shared", cpuset.Set{}, "%s", p.explainShared())
	return steps
}

// describeExclusive returns a sentence about the exclusive CPUs of a container.
func describeExclusive(cpus cpuset.Set) string {
	if cpus.Count() == 1 {
		return fmt.Sprintf("CPU %s is its own", cpus)
	}
	return fmt.Sprintf("CPUs %s are its own", cpus)
}

type addStep func(kind string, cpus cpuset.Set, format string, args ...any)

func (p *Plan) explainSensitive(add addStep) {
	g := &p.Grant
	if !g.Exclusive.IsEmpty() {
		add("whole-cpus", g.Exclusive, "%s: no other container runs there", describeExclusive(g.Exclusive))
	}
	for _, f := range g.Fractions {
		add("fraction", cpuset.Of(f.CPU), "%dm of CPU %d: %s", f.Milli, f.CPU, p.neighbors(f.CPU))
	}
	if n := g.CPUs.Count(); n > g.Limit.CPUs() {
		add("topology", g.CPUs, "best-effort: it sees %d CPUs, %d would match its limit", n, g.Limit.CPUs())
	}
	add("topology", g.CPUs, "%s", p.describePlace())
	if g.Quota == 0 {
		add("quota", cpuset.Set{}, "no quota: its cpuset alone enforces the limit of %s", g.Limit)
	} else {
		add("quota", cpuset.Set{}, "a quota of %s", cpuTime(g.Quota))
	}
}

// neighbors returns a phrase about the other containers on a CPU of the plan's container.
func (p *Plan) neighbors(cpu int) string {
	count := 0
	after := make(map[string]bool)
	for i := range p.Others {
		c := &p.Others[i].After
		after[c.ID] = true
		if c.CPUs.Contains(cpu) {
			count++
		}
	}
	for _, g := range p.node.Grants() {
		if g.ID != p.Grant.ID && !after[g.ID] && g.CPUs.Contains(cpu) {
			count++
		}
	}
	if count == 0 {
		return "no other container uses it"
	}
	reason := ""
	if p.sharedCPUsAfter == 0 {
		reason = ", since no CPU is left to keep them apart"
	}
	if count == 1 {
		return "1 other container uses it" + reason
	}
	return fmt.Sprintf("%d other containers use it%s", count, reason)
}

// explainLent returns a clause about the fractional CPUs that a flexible container uses, or "".
func (p *Plan) explainLent() string {
	lent := p.Grant.CPUs.Intersect(p.lent)
	if lent.IsEmpty() {
		return ""
	}
	return fmt.Sprintf("; the guarantees need room on the fractional CPUs %s too", lent)
}

func explainChange(c *Change, add addStep) {
	if c.After.Class == Flexible {
		verb := "moves to"
		switch {
		case c.After.CPUs.SubsetOf(&c.Before.CPUs):
			verb = "shrinks to"
		case c.Before.CPUs.SubsetOf(&c.After.CPUs):
			verb = "grows to"
		}
		add("flexible", c.After.CPUs, "%s %s CPUs %s", c.After.ID, verb, c.After.CPUs)
		return
	}
	add("move", c.After.CPUs, "the fraction of %s moves: CPUs %s become %s", c.After.ID, c.Before.CPUs, c.After.CPUs)
}

func (p *Plan) explainShared() string {
	switch p.Shared {
	case 0:
		return "no sensitive container shares a CPU"
	case p.SharedBefore:
		return fmt.Sprintf("shared time stays %s", cpuTime(p.Shared))
	default:
		return fmt.Sprintf("shared time goes from %s to %s", cpuTime(p.SharedBefore), cpuTime(p.Shared))
	}
}

// describePlace returns a phrase about the NUMA nodes, L3 domains, cores and kinds of the container's CPUs, and about
// its topology policy.
func (p *Plan) describePlace() string {
	n, cpus := p.node, &p.Grant.CPUs
	var b strings.Builder
	if numas := countOverlaps(n.numas, cpus); numas == 1 {
		fmt.Fprintf(&b, "all in NUMA node %d", n.machine.Nodes[firstOverlap(n.numas, cpus)].ID)
	} else {
		fmt.Fprintf(&b, "in %d NUMA nodes%s", numas, p.explainSpan())
	}
	if n.machine.HasL3 {
		fmt.Fprintf(&b, ", %s", plural(countOverlaps(n.l3s, cpus), "L3 domain"))
	}
	if n.maxThreads > 1 {
		fmt.Fprintf(&b, ", %s split", plural(n.splitCores(cpus), "core"))
	}
	if n.isHybrid() {
		fmt.Fprintf(&b, ", on %s", n.describeKinds(cpus))
	}
	if p.Grant.Topology != Prefer {
		fmt.Fprintf(&b, " (topology policy: %s)", p.Grant.Topology)
	}
	return b.String()
}

// explainSpan returns a clause if no single NUMA node had room for all CPUs of the container, otherwise "".
func (p *Plan) explainSpan() string {
	n := p.node
	for i := range n.numas {
		room := n.shared.Set().Union(p.Before.CPUs).Intersect(n.numas[i])
		for cpu := range n.fractional.Set().Intersect(n.numas[i]).All() {
			if len(p.Grant.Fractions) > 0 && n.load[cpu].room() >= p.Grant.Fractions[0].Milli {
				room.Add(cpu)
				break
			}
		}
		if room.Count() >= p.Grant.CPUs.Count() {
			return ""
		}
	}
	return ", since none has room for all"
}

// splitCores counts the cores of which the set contains some CPUs, but not all usable CPUs.
func (n *Node) splitCores(cpus *cpuset.Set) int {
	split, remaining := 0, *cpus
	for cpu := remaining.First(); cpu >= 0; cpu = remaining.Next(cpu + 1) {
		core := &n.cores[n.layout.cpus[cpu].core]
		if !core.SubsetOf(cpus) {
			split++
		}
		remaining.RemoveAll(core)
	}
	return split
}

// countOverlaps counts the domains that overlap the CPUs.
func countOverlaps(domains []cpuset.Set, cpus *cpuset.Set) int {
	count := 0
	for i := range domains {
		if domains[i].Overlaps(cpus) {
			count++
		}
	}
	return count
}

// firstOverlap returns the index of the first domain that overlaps the CPUs.
func firstOverlap(domains []cpuset.Set, cpus *cpuset.Set) int {
	return slices.IndexFunc(domains, func(d cpuset.Set) bool { return d.Overlaps(cpus) })
}
