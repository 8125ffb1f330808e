package packing

import (
	"cmp"
	"math"
	"slices"
)

// A search is a branch and bound: it places the applications in decreasing order of size, on each possible node in order of promise, and
// backtracks where no better solution is possible. Its first descent is the heuristic: best fit decreasing, or the least added sharing.
type search struct {
	*problem
	goal      Goal
	mostNodes int  // that a solution may use
	anyWillDo bool // the first solution is enough

	order     []int     // applications, the largest first
	left      [][]int64 // by node and resource
	on        [][]int64 // by node: the CPU of its applications
	shared    []int64   // by node
	of        []int     // by application: its node
	used      int
	sharing   int64
	rest      [][]int64 // by depth and resource: demand of the unplaced applications
	fractions []int64   // memory of sharedOn

	best     []int // nil: no solution yet
	bestCost int64
	bound    int64 // no solution costs less
	tries    int   // below 0: given up
}

func newSearch(p *problem, goal Goal) *search {
	s := &search{problem: p, goal: goal, mostNodes: len(p.nodes), of: make([]int, len(p.apps)), shared: make([]int64, len(p.nodes)), on: make([][]int64, len(p.nodes)), bestCost: math.MaxInt64}
	s.bound = int64(p.nodesBound())
	if goal == Sharing {
		s.bound = p.sharedBound(len(p.nodes))
	}
	for i := range p.nodes {
		s.left = append(s.left, slices.Clone(p.nodes[i].Amounts))
	}
	for i := range p.apps {
		s.order = append(s.order, i)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(p.weight(b), p.weight(a)) })
	s.rest = make([][]int64, len(p.apps)+1)
	s.rest[len(p.apps)] = make([]int64, len(p.resources))
	for depth := len(p.apps) - 1; depth >= 0; depth-- {
		s.rest[depth] = slices.Clone(s.rest[depth+1])
		for r, amount := range p.apps[s.order[depth]].Amounts {
			s.rest[depth][r] += amount
		}
	}
	return s
}

// weight returns the size of an application: its largest share of a resource.
func (p *problem) weight(app int) float64 {
	most := 0.0
	for r, amount := range p.apps[app].Amounts {
		if have := total(p.nodes, r); have > 0 {
			most = max(most, float64(amount)/float64(have))
		}
	}
	return most
}

// run searches until the solution is optimal, or until Tries placements.
func (s *search) run() {
	s.tries = Tries
	s.place(0)
}

// place places the remaining applications, and reports whether the search is over.
func (s *search) place(depth int) bool {
	if s.leastCost(depth) >= s.bestCost {
		return false
	}
	if depth == len(s.order) {
		s.best, s.bestCost = slices.Clone(s.of), s.cost()
		return s.anyWillDo || s.bestCost == s.bound
	}
	app := s.order[depth]
	for _, n := range s.choices(app) {
		if s.tries--; s.tries < 0 {
			return true
		}
		shared := s.put(app, n)
		over := s.place(depth + 1)
		s.takeBack(app, n, shared)
		if over {
			return true
		}
	}
	return false
}

func (s *search) cost() int64 {
	if s.goal == Sharing {
		return s.sharing
	}
	return int64(s.used)
}

// leastCost returns a lower bound on the cost of solutions with this beginning.
func (s *search) leastCost(depth int) int64 {
	more := s.moreNodes(depth)
	switch {
	case s.used+more > s.mostNodes:
		return math.MaxInt64
	case s.goal == Sharing:
		return s.sharing
	default:
		return int64(s.used + more)
	}
}

// hopeless is more nodes than there are.
const hopeless = math.MaxInt32

// moreNodes returns a lower bound on the additional nodes for the remaining applications.
func (s *search) moreNodes(depth int) int {
	more := 0
	for r := range s.resources {
		lacking, largest := s.rest[depth][r], int64(0)
		for n := range s.nodes {
			if len(s.on[n]) > 0 {
				lacking -= s.left[n][r]
			} else {
				largest = max(largest, s.left[n][r])
			}
		}
		switch {
		case lacking <= 0:
		case largest == 0:
			return hopeless
		default:
			more = max(more, int((lacking+largest-1)/largest))
		}
	}
	return more
}

// choices returns the nodes where an application may go, the best first. Of empty nodes that are the
// same it is the first.
func (s *search) choices(app int) []int {
	var nodes []int
	for n := range s.nodes {
		if s.fits(app, n) && !s.sameBefore(n) {
			nodes = append(nodes, n)
		}
	}
	keys := make(map[int][3]int64, len(nodes))
	for _, n := range nodes {
		keys[n] = s.keyOf(app, n)
	}
	slices.SortStableFunc(nodes, func(a, b int) int {
		x, y := keys[a], keys[b]
		return slices.Compare(x[:], y[:])
	})
	return nodes
}

// keyOf orders the nodes for an application: those that have some first, then the tightest fit;
// where sharing counts, the least added sharing first.
func (s *search) keyOf(app, n int) [3]int64 {
	empty := int64(0)
	if len(s.on[n]) == 0 {
		empty = 1
	}
	tight := s.left[n][0]
	for r, amount := range s.apps[app].Amounts {
		if have := s.nodes[n].Amounts[r]; have > 0 {
			tight = min(tight, (s.left[n][r]-amount)*1000/have)
		}
	}
	if s.goal == Nodes {
		return [3]int64{empty, tight, 0}
	}
	shared := sharedOn(wholeCPUs(s.nodes[n].Amounts[0]), append(s.on[n], s.apps[app].Amounts[0]), s.fractions)
	return [3]int64{shared - s.shared[n], empty, tight}
}

// sameBefore reports whether a node is empty and equals an earlier empty node.
func (s *search) sameBefore(n int) bool {
	if len(s.on[n]) > 0 {
		return false
	}
	for m := range n {
		if len(s.on[m]) == 0 && slices.Equal(s.nodes[m].Amounts, s.nodes[n].Amounts) {
			return true
		}
	}
	return false
}

func (s *search) fits(app, n int) bool {
	for r, amount := range s.apps[app].Amounts {
		if amount > s.left[n][r] {
			return false
		}
	}
	return true
}

// put puts an application on a node, and returns the node's shared time from before.
func (s *search) put(app, n int) (before int64) {
	before = s.shared[n]
	if len(s.on[n]) == 0 {
		s.used++
	}
	s.of[app] = n
	s.on[n] = append(s.on[n], s.apps[app].Amounts[0])
	for r, amount := range s.apps[app].Amounts {
		s.left[n][r] -= amount
	}
	s.shared[n] = sharedOn(wholeCPUs(s.nodes[n].Amounts[0]), s.on[n], s.fractions)
	s.sharing += s.shared[n] - before
	return before
}

// takeBack undoes put.
func (s *search) takeBack(app, n int, before int64) {
	s.on[n] = s.on[n][:len(s.on[n])-1]
	if len(s.on[n]) == 0 {
		s.used--
	}
	for r, amount := range s.apps[app].Amounts {
		s.left[n][r] += amount
	}
	s.sharing -= s.shared[n] - before
	s.shared[n] = before
}
