package fleet

import (
	"math/bits"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// chooseNode finds the best node for the question that is asked.
func (f *Fleet) chooseNode() (NodeID, error) {
	s := f.resumeSearch()
	if !f.search(s, 4*maxCandidates) {
		f.startSearch(s)
		f.search(s, 2*MaxNodes)
		f.storeSearch(s)
	}
	if len(s.candidates.heap) == 0 {
		return NoNode, f.refusal(s)
	}
	return s.candidates.heap[0].lowest, nil
}

// search is a best-first search: it opens blocks and evaluates nodes, the best bound first, until the first candidate is a node with a
// known score: no other node can be better. It returns false if the search must restart, because it has reached an omitted candidate or
// moved nodes, or has too many candidates.
func (f *Fleet) search(s *searchState, maxHeap int) bool {
	for ok := true; len(s.candidates.heap) > 0; {
		switch c := &s.candidates.heap[0]; {
		case c.isStale(f.versions):
			s.candidates.pop()
		case c.block == evaluatedNode:
			return true
		case c.block == nil:
			f.evaluateFirst(s)
		case c.block.lastMove > s.startMoves:
			ok = f.openMovedFirst(s)
		case c.block.loose != 0:
			ok = f.tightenFirst(s)
		default:
			f.openFirst(s)
		}
		if !ok || len(s.candidates.heap) > maxHeap {
			return false
		}
	}
	return s.candidates.limit == maxCandidate
}

// tightenFirst computes the row and the bound of the first block again. It returns false for a block without a row.
func (f *Fleet) tightenFirst(s *searchState) bool {
	c, index := s.candidates.heap[0], f.indexFor(f.query.Class)
	parent := c.block.parent
	i := slices.Index(parent.blocks[:parent.count], c.block)
	if i < 0 {
		return false
	}
	index.tighten(parent, i)
	if r := &parent.rows[i]; f.query.admits(r) {
		c.bound, c.lowest = f.bound(r), parent.lowest[i]
		s.candidates.replace(&c)
	} else {
		s.candidates.pop()
	}
	return true
}

// openMovedFirst opens the first block, some of whose nodes have moved to another block since the search started. It returns false if that
// block is unknown, since nodes moved to two blocks.
func (f *Fleet) openMovedFirst(s *searchState) bool {
	c := s.candidates.heap[0]
	if successor := c.block.successor; c.block.previousMove > s.startMoves || successor == nil || successor.isMerged {
		return false
	}
	c.block = c.block.successor
	s.candidates.push(&c) // it does not precede the other block, which has the same bound
	f.openFirst(s)
	return true
}

// openFirst puts the parts of the block that comes first in its place.
func (f *Fleet) openFirst(s *searchState) {
	first, best := &s.candidates.heap[0], maxCandidate
	b := first.block
	first.bound, first.lowest = 0, NoNode // so that it stays where it is
	index := f.indexFor(f.query.Class)
	for children := index.admitted(&f.query, b); children != 0; children &= children - 1 {
		i := bits.TrailingZeros32(children)
		c := candidate{bound: f.bound(index.rowOf(b, i)), lowest: b.lowest[i]}
		if b.inner == nil {
			c.version = f.versions[c.lowest]
		} else {
			c.block = b.blocks[i]
		}
		if c.before(&best) {
			c, best = best, c
		}
		if c.bound != never {
			s.candidates.push(&c)
		}
	}
	if best.bound == never {
		s.candidates.pop()
	} else {
		if best.block == nil {
			f.prefetchQuote(best.lowest)
		}
		s.candidates.replace(&best)
	}
}

// evaluateFirst finds out the score of the node that comes first, or a better bound of it.
func (f *Fleet) evaluateFirst(s *searchState) {
	c := s.candidates.heap[0]
	f.prefetchNode(c.lowest)
	score, isExact := f.evaluate(c.lowest, c.bound)
	if score == never {
		s.candidates.pop()
		return
	}
	f.nodes[c.lowest].Prefetch() // as a rule it is chosen
	if c.bound = score; isExact {
		c.block = evaluatedNode
	}
	s.candidates.replace(&c)
}

// evaluate returns a node's score and true, or a bound above the known bound. The score is never if the node cannot take the container. It
// asks nodes without direct room only when they come first.
func (f *Fleet) evaluate(id NodeID, bound score) (score, bool) {
	r := f.query.Request
	if !f.hasAmounts(id, r) {
		return never, false
	}
	if f.query.byFreeShare {
		if s := f.shareScore(id); s > bound {
			return s, false
		}
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	switch {
	case verdict == hybrid.Refused || f.hasSpread(id, r):
		return never, false
	case verdict == hybrid.Known && !f.needsTopology(id):
		return f.scoreOf(id, &quote), true
	case verdict == hybrid.NotDirect:
		if indirect := f.indirectScoreOf(id); indirect > bound {
			return indirect, false
		}
	}
	return f.quoteNode(id), true
}

// needsTopology reports whether a node's topology decides, which summaries do not contain.
func (f *Fleet) needsTopology(id NodeID) bool {
	return f.options.Order == Candor && f.query.Class == hybrid.Sensitive && !f.summaries[id].IsFlat()
}

// quoteNode asks a node for the cost of the container, and returns its score. It does not repeat a request that the node has refused since
// its last change.
func (f *Fleet) quoteNode(id NodeID) score {
	n, q := &f.nodes[id], &f.query
	isCached := q.Topology == hybrid.Prefer && q.isStrict && q.Class == hybrid.Sensitive
	if isCached && slices.Contains(f.refused[id][:min(n.refusals, maxRefusals)], q.need) {
		return never
	}
	quote, err := n.Quote(&f.request)
	if err == nil {
		return f.scoreOf(id, &quote)
	}
	if isCached {
		f.refused[id][n.refusals%maxRefusals] = q.need
		n.refusals++
	}
	return never
}
