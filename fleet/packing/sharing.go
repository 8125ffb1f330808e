package packing

import (
	"cmp"
	"slices"
)

// sharedOn returns a lower bound on the sharing of applications with these amounts on a node: the time, in milli-CPU, on CPUs that several
// applications use. Whole CPUs and the largest fractions get CPUs of their own as long as the remaining CPUs have enough time for the
// remaining fractions. The sum of the remaining fractions is the result. sharedOn only compares sums of time, so it assumes that fractions
// can be divided among CPUs. A further application never lowers the result. The slice fractions only provides memory.
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

// sharedBound returns a lower bound on the sharing of all allocations with at most this number of nodes. It treats the largest nodes as a
// single node that has all of their CPUs.
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

// wholeCPUs returns the number of CPUs of a node, rounded up.
func wholeCPUs(milli int64) int64 { return (milli + 999) / 1000 }

// nodesBound returns a lower bound on the number of nodes of every allocation. For each resource, it counts how many nodes, the largest
// first, are needed until their capacities cover the total demand.
func (p *problem) nodesBound() int {
	bound := 0
	for r := range p.resources {
		sizes := p.sizes(r)
		need, count := sumOf(p.apps, r), 0
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

// sizes returns the nodes' capacities of a resource in decreasing order.
func (p *problem) sizes(resource int) []int64 {
	sizes := make([]int64, len(p.nodes))
	for i := range p.nodes {
		sizes[i] = p.nodes[i].Amounts[resource]
	}
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Compare(b, a) })
	return sizes
}
