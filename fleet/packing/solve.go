package packing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Tries is the maximum number of placements that a search tries. These placements take a few seconds. If a search stops at this
// number, its solution may not be optimal.
const Tries = 5_000_000

// ErrNotFound reports that Solve found no allocation within Tries placements, and that an allocation may still exist.
var ErrNotFound = errors.New("no allocation found, and none proven impossible: the case is too large to search through")

// Solve finds an allocation. Errors: an *Infeasible if no allocation exists, ErrNotFound, or ErrOtherResources.
func Solve(apps, nodes List, goal Goal) (*Solution, error) {
	p, err := newProblem(apps, nodes)
	if err != nil {
		return nil, err
	}
	if err := p.checkCapacity(); err != nil {
		return nil, err
	}
	s := newSearch(p, goal)
	s.run()
	switch {
	case s.best == nil && s.tries >= 0:
		return nil, p.explainInfeasible()
	case s.best == nil:
		return nil, ErrNotFound
	}
	solution := &Solution{NodeOf: s.best, Optimal: s.tries >= 0}
	p.setUse(solution)
	if goal == Nodes {
		p.reduceSharing(solution)
	}
	p.setBound(solution, goal)
	return solution, nil
}

// reduceSharing searches for the least sharing among the allocations with the solution's number of nodes.
func (p *problem) reduceSharing(solution *Solution) {
	s := newSearch(p, Sharing)
	s.maxNodes, s.bound = solution.Used, p.sharedBound(solution.Used)
	s.best, s.bestCost = solution.NodeOf, solution.Shared
	if s.bestCost > s.bound {
		s.run()
	}
	solution.NodeOf, solution.SharesLeast = s.best, s.tries >= 0
	p.setUse(solution)
}

// setUse sets Used and Shared of a solution.
func (p *problem) setUse(solution *Solution) {
	solution.Used, solution.Shared = 0, 0
	amounts := make([][]int64, len(p.nodes))
	for a, n := range solution.NodeOf {
		amounts[n] = append(amounts[n], p.apps[a].Amounts[0])
	}
	for n := range amounts {
		if len(amounts[n]) > 0 {
			solution.Used++
		}
		solution.Shared += sharedOn(wholeCPUs(p.nodes[n].Amounts[0]), amounts[n], nil)
	}
}

// setBound sets Optimal and Bound of a solution, and SharesLeast for the goal Sharing.
func (p *problem) setBound(solution *Solution, goal Goal) {
	cost := int64(solution.Used)
	solution.Bound = int64(p.nodesBound())
	if goal == Sharing {
		cost, solution.Bound = solution.Shared, p.sharedBound(len(p.nodes))
	}
	if cost == solution.Bound {
		solution.Optimal = true
	}
	if solution.Optimal {
		solution.Bound = cost
	}
	solution.SharesLeast = solution.SharesLeast || goal == Sharing && solution.Optimal
}

// checkCapacity returns an error if an application needs more of a resource than any node has, or if the total capacity of a resource is
// too small.
func (p *problem) checkCapacity() error {
	for r, name := range p.resources {
		for i := range p.apps {
			largest := int64(0)
			for n := range p.nodes {
				largest = max(largest, p.nodes[n].Amounts[r])
			}
			if app := &p.apps[i]; app.Amounts[r] > largest {
				return &Infeasible{name, fmt.Sprintf("%s needs %s of %s, the largest node has %s",
					app.Name, amountText(name, app.Amounts[r]), name, amountText(name, largest))}
			}
		}
		if need, capacity := sumOf(p.apps, r), sumOf(p.nodes, r); need > capacity {
			return &Infeasible{name, fmt.Sprintf("%s: the applications need %s in all, the nodes have %s",
				name, amountText(name, need), amountText(name, capacity))}
		}
	}
	return nil
}

// explainInfeasible returns an error that names the lacking resources: if no application needed such a resource, an allocation would exist.
func (p *problem) explainInfeasible() error {
	var lacking []string
	for r, name := range p.resources {
		s := newSearch(p.withoutDemand(r), Nodes)
		s.anySolution = true
		if s.run(); s.best != nil {
			lacking = append(lacking, name)
		}
	}
	switch len(lacking) {
	case 0:
		return &Infeasible{"", "the applications do not fit on the nodes by more than one of " + joinNames(p.resources)}
	case 1:
		return &Infeasible{lacking[0], fmt.Sprintf("%s is what lacks: there is enough in all, but the applications do not fit on the nodes; by the other resources they would", lacking[0])}
	default:
		return &Infeasible{"", fmt.Sprintf("%s do not fit on the nodes together; without one of them the applications would", strings.Join(lacking, " and "))}
	}
}

// withoutDemand returns the problem as if no application needed the resource.
func (p *problem) withoutDemand(resource int) *problem {
	q := &problem{p.resources, slices.Clone(p.apps), p.nodes}
	for i := range q.apps {
		q.apps[i].Amounts = slices.Clone(q.apps[i].Amounts)
		q.apps[i].Amounts[resource] = 0
	}
	return q
}
