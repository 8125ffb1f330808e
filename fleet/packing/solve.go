package packing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Tries bounds the placements of a search before it stops without a proof of optimality: a few seconds.
const Tries = 5_000_000

// ErrNotFound reports that no solution was found, although there can be a solution.
var ErrNotFound = errors.New("no allocation found, and none proven impossible: the case is too large to search through")

// Solve finds an allocation. Errors: an *Infeasible if there is none, ErrNotFound, or ErrOtherResources.
func Solve(apps, nodes List, goal Goal) (*Solution, error) {
	p, err := newProblem(apps, nodes)
	if err != nil {
		return nil, err
	}
	if err := p.tooMuch(); err != nil {
		return nil, err
	}
	s := newSearch(p, goal)
	s.run()
	switch {
	case s.best == nil && s.tries >= 0:
		return nil, p.whyNot()
	case s.best == nil:
		return nil, ErrNotFound
	}
	solution := &Solution{Of: s.best, Optimal: s.tries >= 0}
	p.describe(solution)
	if goal == Nodes {
		p.shareLess(solution)
	}
	p.setBound(solution, goal)
	return solution, nil
}

// shareLess searches for the least sharing with the solution's number of nodes.
func (p *problem) shareLess(solution *Solution) {
	s := newSearch(p, Sharing)
	s.mostNodes, s.bound = solution.Used, p.sharedBound(solution.Used)
	s.best, s.bestCost = solution.Of, solution.Shared
	if s.bestCost > s.bound {
		s.run()
	}
	solution.Of, solution.SharesLeast = s.best, s.tries >= 0
	p.describe(solution)
}

// describe computes the nodes and the sharing of a solution.
func (p *problem) describe(solution *Solution) {
	solution.Used, solution.Shared = 0, 0
	amounts := make([][]int64, len(p.nodes))
	for a, n := range solution.Of {
		amounts[n] = append(amounts[n], p.apps[a].Amounts[0])
	}
	for n := range amounts {
		if len(amounts[n]) > 0 {
			solution.Used++
		}
		solution.Shared += sharedOn(wholeCPUs(p.nodes[n].Amounts[0]), amounts[n], nil)
	}
}

// setBound sets a solution's bound on its distance from the optimum.
func (p *problem) setBound(solution *Solution, goal Goal) {
	reached := int64(solution.Used)
	solution.Bound = int64(p.nodesBound())
	if goal == Sharing {
		reached, solution.Bound = solution.Shared, p.sharedBound(len(p.nodes))
	}
	if reached == solution.Bound {
		solution.Optimal = true
	}
	if solution.Optimal {
		solution.Bound = reached
	}
	solution.SharesLeast = solution.SharesLeast || goal == Sharing && solution.Optimal
}

// tooMuch finds infeasibility without a search: an application that fits on no node, or a resource with too little capacity in total.
func (p *problem) tooMuch() error {
	for r, name := range p.resources {
		for i := range p.apps {
			most := int64(0)
			for n := range p.nodes {
				most = max(most, p.nodes[n].Amounts[r])
			}
			if app := &p.apps[i]; app.Amounts[r] > most {
				return &Infeasible{name, fmt.Sprintf("%s needs %s of %s, the largest node has %s",
					app.Name, amountText(name, app.Amounts[r]), name, amountText(name, most))}
			}
		}
		if need, have := total(p.apps, r), total(p.nodes, r); need > have {
			return &Infeasible{name, fmt.Sprintf("%s: the applications need %s in all, the nodes have %s",
				name, amountText(name, need), amountText(name, have))}
		}
	}
	return nil
}

// whyNot finds the resources without which a solution would exist.
func (p *problem) whyNot() error {
	var lacking []string
	for r, name := range p.resources {
		s := newSearch(p.without(r), Nodes)
		s.anyWillDo = true
		if s.run(); s.best != nil {
			lacking = append(lacking, name)
		}
	}
	switch len(lacking) {
	case 0:
		return &Infeasible{"", "the applications do not fit on the nodes by more than one of " + list(p.resources)}
	case 1:
		return &Infeasible{lacking[0], fmt.Sprintf("%s is what lacks: there is enough in all, but the applications do not fit on the nodes; by the other resources they would", lacking[0])}
	default:
		return &Infeasible{"", fmt.Sprintf("%s do not fit on the nodes together; without one of them the applications would", strings.Join(lacking, " and "))}
	}
}

// without returns the problem without a resource's demand.
func (p *problem) without(resource int) *problem {
	q := &problem{p.resources, slices.Clone(p.apps), p.nodes}
	for i := range q.apps {
		q.apps[i].Amounts = slices.Clone(q.apps[i].Amounts)
		q.apps[i].Amounts[resource] = 0
	}
	return q
}
