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

// search opens blocks and looks at nodes, those with the best bound first, until a node comes first
// whose score is known: no other can be better. It reports false where the search has to be begun anew, since it has
// come to what was left out, or to nodes that stand elsewhere now, or has too many candidates.
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

// tightenFirst counts anew the row and the bound of the block that comes first. It reports false where nobody
// keeps a row of it.
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

// followFirst opens the block that comes first, some of whose nodes stand in another block since the search was begun.
// It reports false where it is not known in which, as it gave some to two.
func (f *Fleet) followFirst(a *answer) bool {
	c := a.rest.heap[0]
	if heir := c.block.heir; c.block.gaveBefore > a.began || heir == nil || heir.dead {
		return false
	}
	c.block = c.block.heir
	a.rest.push(&c) // it does not come before the other, whose bound is the same
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

// assess returns a node's score and true, or a bound of it that is above the one that is known; the score never if the
// container cannot be there. Nodes without direct room are asked only when it has come to that.
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
		return f.scoreOf(id, r, &quote), true
	case verdict == hybrid.NotDirect:
		if least := f.indirect(id); least > bound {
			return least, false
		}
	}
	return f.askNode(id), true
}

// wantsTopology reports whether a node's topology decides, of which summaries do not tell.
func (f *Fleet) wantsTopology(id NodeID) bool {
	return f.options.Order == Candor && f.question.Class == hybrid.Sensitive && !f.summaries[id].IsFlat()
}

// askNode asks a node itself what the container would cost there, and returns its score. What it has
// refused since it changed last it is not asked again.
func (f *Fleet) askNode(id NodeID) score {
	n, q := &f.nodes[id], &f.question
	known := q.Topology == hybrid.Prefer && q.strict && q.Class == hybrid.Sensitive
	if known && slices.Contains(f.refused[id][:min(n.refusals, mostRefusals)], q.need) {
		return never
	}
	quote, err := n.Quote(&f.request)
	if err == nil {
		return f.scoreOf(id, q.Request, &quote)
	}
	if known {
		f.refused[id][n.refusals%mostRefusals] = q.need
		n.refusals++
	}
	return never
}
