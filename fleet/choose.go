package fleet

import (
	"math/bits"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// choose finds the best node for the question that is asked.
func (f *Fleet) choose() (NodeID, error) {
	a := f.answer()
	if !f.search(a, 4*mostKept) {
		f.begin(a)
		f.search(a, 2*MaxNodes)
		f.keep(a)
	}
	if len(a.rest.heap) == 0 {
		return NoNode, f.refusal(a)
	}
	return a.rest.heap[0].lowest, nil
}

// search is a best-first search: it opens blocks and evaluates nodes, the best bound first, until the first candidate is a node with a
// known score: no other node can be better. It returns false if the search must restart, because it has reached an omitted candidate or
// moved nodes, or has too many candidates.
func (f *Fleet) search(a *answer, most int) bool {
	for ok := true; len(a.rest.heap) > 0; {
		switch c := &a.rest.heap[0]; {
		case c.isStale(f.versions):
			a.rest.pop()
		case c.block == exactly:
			return true
		case c.block == nil:
			f.lookAtFirst(a)
		case c.block.gave > a.began:
			ok = f.followFirst(a)
		case c.block.loose != 0:
			ok = f.tightenFirst(a)
		default:
			f.openFirst(a)
		}
		if !ok || len(a.rest.heap) > most {
			return false
		}
	}
	return a.rest.limit == behind
}

// tightenFirst computes the row and the bound of the first block again. It returns false for a block without a row.
func (f *Fleet) tightenFirst(a *answer) bool {
	c, shelf := a.rest.heap[0], f.shelfFor(f.question.Class)
	parent := c.block.parent
	at := slices.Index(parent.blocks[:parent.count], c.block)
	if at < 0 {
		return false
	}
	shelf.tighten(parent, at)
	if r := &parent.rows[at]; f.question.admits(r) {
		c.bound, c.lowest = f.bound(r), parent.lowest[at]
		a.rest.replace(&c)
	} else {
		a.rest.pop()
	}
	return true
}

// followFirst opens the first block, some of whose nodes have moved to another block since the search started. It returns false if that
// block is unknown, since nodes moved to two blocks.
func (f *Fleet) followFirst(a *answer) bool {
	c := a.rest.heap[0]
	if heir := c.block.heir; c.block.gaveBefore > a.began || heir == nil || heir.dead {
		return false
	}
	c.block = c.block.heir
	a.rest.push(&c) // it does not precede the other block, which has the same bound
	f.openFirst(a)
	return true
}

// openFirst puts the parts of the block that comes first in its place.
func (f *Fleet) openFirst(a *answer) {
	first, best := &a.rest.heap[0], behind
	b := first.block
	first.bound, first.lowest = 0, NoNode // so that it stays where it is
	shelf := f.shelfFor(f.question.Class)
	for parts := shelf.admitted(&f.question, b); parts != 0; parts &= parts - 1 {
		i := bits.TrailingZeros32(parts)
		c := candidate{bound: f.bound(shelf.row(b, i)), lowest: b.lowest[i]}
		if b.inner == nil {
			c.version = f.versions[c.lowest]
		} else {
			c.block = b.blocks[i]
		}
		if c.before(&best) {
			c, best = best, c
		}
		if c.bound != never {
			a.rest.push(&c)
		}
	}
	if best.bound == never {
		a.rest.pop()
	} else {
		if best.block == nil {
			f.fetchQuote(best.lowest)
		}
		a.rest.replace(&best)
	}
}

// lookAtFirst finds out the score of the node that comes first, or a better bound of it.
func (f *Fleet) lookAtFirst(a *answer) {
	c := a.rest.heap[0]
	f.fetchNode(c.lowest)
	s, exact := f.assess(c.lowest, c.bound)
	if s == never {
		a.rest.pop()
		return
	}
	f.nodes[c.lowest].Prefetch() // as a rule it is chosen
	if c.bound = s; exact {
		c.block = exactly
	}
	a.rest.replace(&c)
}

// assess returns a node's score and true, or a bound above the known bound. The score is never if the node cannot take the container. It
// asks nodes without direct room only when they come first.
func (f *Fleet) assess(id NodeID, bound score) (score, bool) {
	r := f.question.Request
	if !f.hasAmounts(id, r) {
		return never, false
	}
	if f.question.byShare {
		if s := f.shareScore(id); s > bound {
			return s, false
		}
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	switch {
	case verdict == hybrid.Refused || f.isTaken(id, r):
		return never, false
	case verdict == hybrid.Known && !f.wantsTopology(id):
		return f.scoreOf(id, &quote), true
	case verdict == hybrid.NotDirect:
		if least := f.indirect(id); least > bound {
			return least, false
		}
	}
	return f.askNode(id), true
}

// wantsTopology reports whether a node's topology decides, which summaries do not contain.
func (f *Fleet) wantsTopology(id NodeID) bool {
	return f.options.Order == Candor && f.question.Class == hybrid.Sensitive && !f.summaries[id].IsFlat()
}

// askNode asks a node for the cost of the container, and returns its score. It does not repeat a request that the node has refused since
// its last change.
func (f *Fleet) askNode(id NodeID) score {
	n, q := &f.nodes[id], &f.question
	known := q.Topology == hybrid.Prefer && q.strict && q.Class == hybrid.Sensitive
	if known && slices.Contains(f.refused[id][:min(n.refusals, mostRefusals)], q.need) {
		return never
	}
	quote, err := n.Quote(&f.request)
	if err == nil {
		return f.scoreOf(id, &quote)
	}
	if known {
		f.refused[id][n.refusals%mostRefusals] = q.need
		n.refusals++
	}
	return never
}
