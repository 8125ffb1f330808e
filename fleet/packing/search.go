package packing

import (
	"cmp"
	"math"
	"slices"
)

// A search is a branch and bound. It places the applications one after the other, the largest first. For each application, it tries the most
// promising node first, and it backtracks when no better solution is possible. The first descent is a heuristic: best fit decreasing, or the
// least added sharing.
type search struct {
	*problem
	goal        Goal
	maxNodes    int  // maximum number of nodes of a solution
	anySolution bool // stop at the first solution

	order      []int     // applications, the largest first
	free       [][]int64 // by node and resource
	cpuAmounts [][]int64 // by node: the CPU demand of each of the node's applications
	shared     []int64   // by node: sharedOn of the node's applications
	nodeOf     []int     // by application: the application's node
	used       int       // number of nodes with applications
	sharing    int64     // sum of shared
	demand     [][]int64 // by depth and resource: demand of the applications that are not placed yet at this depth
	buffer     []int64   // memory for sharedOn

	best     []int // best solution so far; nil: none
	bestCost int64
	bound    int64 // lower bound on the cost of every solution
	tries    int   // number of placements that the search can still try; negative if the search gave up
}

func newSearch(p *problem, goal Goal) *search {
	s := &search{
		problem: p, goal: goal, maxNodes: len(p.nodes), bestCost: math.MaxInt64,
		nodeOf: make([]int, len(p.apps)), shared: make([]int64, len(p.nodes)), cpuAmounts: make([][]int64, len(p.nodes)),
	}
	s.bound = int64(p.nodesBound())
	if goal == Sharing {
		s.bound = p.sharedBound(len(p.nodes))
	}
	for i := range p.nodes {
		s.free = append(s.free, slices.Clone(p.nodes[i].Amounts))
	}
	for i := range p.apps {
		s.order = append(s.order, i)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(p.weight(b), p.weight(a)) })
	s.demand = make([][]int64, len(p.apps)+1)
	s.demand[len(p.apps)] = make([]int64, len(p.resources))
	for depth := len(p.apps) - 1; depth >= 0; depth-- {
		s.demand[depth] = slices.Clone(s.demand[depth+1])
		for r, amount := range p.apps[s.order[depth]].Amounts {
			s.demand[depth][r] += amount
		}
	}
	return s
}

// weight returns the size of an application: the largest share of a resource's total capacity that the application needs.
func (p *problem) weight(app int) float64 {
	largest := 0.0
	for r, amount := range p.apps[app].Amounts {
		if capacity := sumOf(p.nodes, r); capacity > 0 {
			largest = max(largest, float64(amount)/float64(capacity))
		}
	}
	return largest
}

// run searches until the solution is optimal, or until Tries placements have been tried.
func (s *search) run() {
	s.tries = Tries
	s.place(0)
}

// place places the applications at index depth and above of s.order, and reports whether the search is done.
func (s *search) place(depth int) bool {
	if s.minCost(depth) >= s.bestCost {
		return false
	}
	if depth == len(s.order) {
		s.best, s.bestCost = slices.Clone(s.nodeOf), s.cost()
		return s.anySolution || s.bestCost == s.bound
	}
	app := s.order[depth]
	for _, n := range s.candidates(app) {
		if s.tries--; s.tries < 0 {
			return true
		}
		shared := s.assign(app, n)
		done := s.place(depth + 1)
		s.unassign(app, n, shared)
		if done {
			return true
		}
	}
	return false
}

// cost returns the cost of the current placements: the value that the goal minimizes.
func (s *search) cost() int64 {
	if s.goal == Sharing {
		return s.sharing
	}
	return int64(s.used)
}

// minCost returns a lower bound on the cost of all solutions that contain the current placements.
func (s *search) minCost(depth int) int64 {
	added := s.minMoreNodes(depth)
	switch {
	case s.used+added > s.maxNodes:
		return math.MaxInt64
	case s.goal == Sharing:
		return s.sharing
	default:
		return int64(s.used + added)
	}
}

// unreachable is above the number of nodes.
const unreachable = math.MaxInt32

// minMoreNodes returns a lower bound on the number of further nodes that the remaining applications need.
func (s *search) minMoreNodes(depth int) int {
	count := 0
	for r := range s.resources {
		lacking, largest := s.demand[depth][r], int64(0)
		for n := range s.nodes {
			if len(s.cpuAmounts[n]) > 0 {
				lacking -= s.free[n][r]
			} else {
				largest = max(largest, s.free[n][r])
			}
		}
		switch {
		case lacking <= 0:
		case largest == 0:
			return unreachable
		default:
			count = max(count, int((lacking+largest-1)/largest))
		}
	}
	return count
}

// candidates returns the nodes that have capacity for an application, the most promising first. Of empty nodes with equal capacities, it
// returns only the first.
func (s *search) candidates(app int) []int {
	var nodes []int
	for n := range s.nodes {
		if s.fits(app, n) && !s.hasEmptyTwin(n) {
			nodes = append(nodes, n)
		}
	}
	keys := make(map[int][3]int64, len(nodes))
	for _, n := range nodes {
		keys[n] = s.sortKey(app, n)
	}
	slices.SortStableFunc(nodes, func(a, b int) int {
		x, y := keys[a], keys[b]
		return slices.Compare(x[:], y[:])
	})
	return nodes
}

// sortKey returns the key by which candidates orders a node: nodes with applications before empty nodes, and then the tightest fit first.
// For the goal Sharing, the least added sharing precedes both.
func (s *search) sortKey(app, n int) [3]int64 {
	empty := int64(0)
	if len(s.cpuAmounts[n]) == 0 {
		empty = 1
	}
	tightest := s.free[n][0]
	for r, amount := range s.apps[app].Amounts {
		if capacity := s.nodes[n].Amounts[r]; capacity > 0 {
			tightest = min(tightest, (s.free[n][r]-amount)*1000/capacity)
		}
	}
	if s.goal == Nodes {
		return [3]int64{empty, tightest, 0}
	}
	shared := sharedOn(wholeCPUs(s.nodes[n].Amounts[0]), append(s.cpuAmounts[n], s.apps[app].Amounts[0]), s.buffer)
	return [3]int64{shared - s.shared[n], empty, tightest}
}

// hasEmptyTwin reports whether a node is empty and an earlier empty node has equal capacities.
func (s *search) hasEmptyTwin(n int) bool {
	if len(s.cpuAmounts[n]) > 0 {
		return false
	}
	for m := range n {
		if len(s.cpuAmounts[m]) == 0 && slices.Equal(s.nodes[m].Amounts, s.nodes[n].Amounts) {
			return true
		}
	}
	return false
}

func (s *search) fits(app, n int) bool {
	for r, amount := range s.apps[app].Amounts {
		if amount > s.free[n][r] {
			return false
		}
	}
	return true
}

// assign places an application on a node, and returns the previous value of s.shared for this node.
func (s *search) assign(app, n int) (before int64) {
	before = s.shared[n]
	if len(s.cpuAmounts[n]) == 0 {
		s.used++
	}
	s.nodeOf[app] = n
	s.cpuAmounts[n] = append(s.cpuAmounts[n], s.apps[app].Amounts[0])
	for r, amount := range s.apps[app].Amounts {
		s.free[n][r] -= amount
	}
	s.shared[n] = sharedOn(wholeCPUs(s.nodes[n].Amounts[0]), s.cpuAmounts[n], s.buffer)
	s.sharing += s.shared[n] - before
	return before
}

// unassign reverts assign. before is the result of assign.
func (s *search) unassign(app, n int, before int64) {
	s.cpuAmounts[n] = s.cpuAmounts[n][:len(s.cpuAmounts[n])-1]
	if len(s.cpuAmounts[n]) == 0 {
		s.used--
	}
	for r, amount := range s.apps[app].Amounts {
		s.free[n][r] += amount
	}
	s.sharing -= s.shared[n] - before
	s.shared[n] = before
}
