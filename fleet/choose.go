package fleet

import (
	"math/bits"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// chooseNode returns the best node for the query.
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

// search is a best-first search. It opens blocks and evaluates nodes in the order of their bounds, the lowest bound first. It
// ends when the first candidate is an evaluated node, because no other node can be better. It returns false if the search must
// start again: it has only omitted candidates left, it cannot find nodes that left a block, or it has more than maxHeap
// candidates.
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

// tightenFirst recomputes the row and the bound of the first candidate, a block with a loose row. It returns false if the block is not in
// the index anymore.
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

// openMovedFirst opens the first candidate, a block of which children have moved to another block since the search started. It also adds
// the other block as a candidate. It returns false if it cannot find all children: they moved more than once, or the other block left the
// index.
func (f *Fleet) openMovedFirst(s *searchState) bool {
	c := s.candidates.heap[0]
	if successor := c.block.successor; c.block.previousMove > s.startMoves || successor == nil || successor.isMerged {
		return false
	}
	c.block = c.block.successor
	s.candidates.push(&c) // the first block stays first, because both blocks have the same bound
	f.openFirst(s)
	return true
}

// openFirst replaces the first candidate, a block, by the block's children.
func (f *Fleet) openFirst(s *searchState) {
	first, best := &s.candidates.heap[0], maxCandidate
	b := first.block
	first.bound, first.lowest = 0, NoNode // so that the pushes below leave the block in the first position
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

// evaluateFirst replaces the bound of the first candidate, a node, by the node's score or by a higher bound.
func (f *Fleet) evaluateFirst(s *searchState) {
	c := s.candidates.heap[0]
	f.prefetchNode(c.lowest)
	newBound, isExact := f.evaluate(c.lowest, c.bound)
	if newBound == never {
		s.candidates.pop()
		return
	}
	f.nodes[c.lowest].Prefetch() // because the search usually chooses this node
	if c.bound = newBound; isExact {
		c.block = evaluatedNode
	}
	s.candidates.replace(&c)
}

// evaluate returns a node's score and true, or a bound above the known bound and false. It returns the constant never if the node cannot
// take the container. If the container needs moves, evaluate first returns a bound (indirectScoreOf). It computes the score with the node
// itself, which takes longer, only when it is called again with this bound.
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

// needsTopology reports whether the score depends on the node's topology, which a summary does not contain.
func (f *Fleet) needsTopology(id NodeID) bool {
	return f.options.Order == Candor && f.query.Class == hybrid.Sensitive && !f.summaries[id].IsFlat()
}

// quoteNode computes a node's score from the quote of the node itself, which is slower than the quote of the node's summary. If the node has
// refused the same request since its last change, quoteNode does not repeat the request.
func (f *Fleet) quoteNode(id NodeID) score {
	n, q := &f.nodes[id], &f.query
	isCached := q.Topology == hybrid.Prefer && q.isStrict && q.Class == hybrid.Sensitive
	if isCached && slices.Contains(f.refused[id][:min(n.refusals, maxRefusals)], q.guaranteed) {
		return never
	}
	quote, err := n.Quote(&f.request)
	if err == nil {
		return f.scoreOf(id, &quote)
	}
	if isCached {
		f.refused[id][n.refusals%maxRefusals] = q.guaranteed
		n.refusals++
	}
	return never
}
