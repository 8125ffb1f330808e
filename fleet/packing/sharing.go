package packing

import (
	"cmp"
	"slices"
)

// sharedOn returns the least CPU time, in milli-CPU, that is on CPUs which several applications
// use when applications of these amounts run on a node: whole CPUs and the largest fractions have CPUs
// of their own as far as they reach, and the time left must hold the rest. It looks at time only, so it is
// what free moves of fractions can reach at best. Applications more never make it less.
func sharedOn(cpus int64, amounts []int64, fractions []int64) int64 {
	fractions = fractions[:0]
	bins, rest := cpus, int64(0)
	for _, amount := range amounts {
		bins -= amount / 1000
		if fraction := amount % 1000; fraction > 0 {
			fractions = append(fractions, fraction)
			rest += fraction
		}
	}
	slices.SortFunc(fractions, func(a, b int64) int { return int(b - a) })
	for i := 0; i < len(fractions) && rest-fractions[i] <= (bins-1)*1000; i++ {
		rest -= fractions[i]
		bins--
	}
	return rest
}

// sharedBound is less than or as much as every solution shares that uses so many nodes at most: as
// if all CPUs of the largest ones were one node's.
func (p *problem) sharedBound(nodes int) int64 {
	var cpus int64
	for _, milli := range p.sizes(0)[:nodes] {
		cpus += wholeCPUs(milli)
	}
	amounts := make([]int64, len(p.apps))
	for i := range p.apps {
		amounts[i] = p.apps[i].Amounts[0]
	}
	return sharedOn(cpus, amounts, nil)
}

// wholeCPUs is how many CPUs a node has; a part of one counts as one.
func wholeCPUs(milli int64) int64 { return (milli + 999) / 1000 }

// nodesBound is less than or as many as every solution needs: so many of the largest
// nodes, resource by resource.
func (p *problem) nodesBound() int {
	bound := 0
	for r := range p.resources {
		sizes := p.sizes(r)
		need, count := total(p.apps, r), 0
		for ; need > 0 && count < len(sizes); count++ {
			need -= sizes[count]
		}
		bound = max(bound, count)
	}
	if len(p.apps) > 0 {
		bound = max(bound, 1)
	}
	return bound
}

// sizes is what the nodes have of a resource, the largest first.
func (p *problem) sizes(resource int) []int64 {
	sizes := make([]int64, len(p.nodes))
	for i := range p.nodes {
		sizes[i] = p.nodes[i].Amounts[resource]
	}
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Compare(b, a) })
	return sizes
}
