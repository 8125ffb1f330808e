package fleet

import (
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// A finding is the best node so far.
type finding struct {
	score score
	at    item // its number and, where that comes first among equals, its place on the shelf
}

// yields reports whether a score and a place, or the bounds of some, would be better.
func (a *finding) yields(s score, at item) bool {
	return s < a.score || s == a.score && s != never && at.before(a.at)
}

// choose finds the best node for the question that is asked.
func (f *Fleet) choose() (NodeID, error) {
	f.best = finding{never, item{0, Nowhere}}
	f.bestFirst()
	if f.best.score == never {
		return Nowhere, f.refusal()
	}
	return f.best.at.id, nil
}

// bestFirst opens blocks, those with the best bound first, until no other can have a better node.
func (f *Fleet) bestFirst() {
	f.candidates = f.candidates[:0]
	for k := range f.kinds {
		kind := &f.kinds[k]
		shelf := f.shelfFor(kind, f.question.Class)
		if shelf.root == nil || shelf.root.count == 0 || !f.question.admits(&shelf.cover) {
			continue
		}
		kind.shift = kind.weigher.weigh(int64(f.question.need), f.question.Resources)
		f.consider(shelf.root, &shelf.cover)
	}
	for len(f.candidates) > 0 {
		c := f.candidates.pop()
		if !f.best.yields(c.bound, c.first) {
			return
		}
		if c.cover.loose {
			*c.cover = f.coverOf(c.block)
			f.consider(c.block, c.cover)
			continue
		}
		if c.block.inner == nil {
			f.lookInto(&c)
			continue
		}
		for i := range c.block.count {
			f.consider(c.block.inner.blocks[i], &c.block.inner.covers[i])
		}
	}
}

// lookInto looks at the nodes of a candidate, up to one than which none of them can be better.
func (f *Fleet) lookInto(c *candidate) {
	inOrder := f.standsFirst()
	for i := range c.block.count {
		if f.look(c.block.items[i].id) && inOrder && f.best.score == c.bound {
			return
		}
	}
}

// consider makes a block a candidate if it may have a better node.
func (f *Fleet) consider(b *block, c *cover) {
	first := f.firstOf(b, c)
	if bound := f.bound(c); f.best.yields(bound, first) {
		f.candidates.push(candidate{bound, first, b, c})
	}
}

// standsFirst reports whether of nodes with the same score the one that stands first on its
// shelf is the best, and not the one with the lowest number.
func (f *Fleet) standsFirst() bool { return f.options.Order == Candor }

// placeOf returns what decides between a node and others with its score.
func (f *Fleet) placeOf(id NodeID) item {
	if f.standsFirst() {
		return item{f.nodes[id].keys[f.question.Class], id}
	}
	return item{0, id}
}

// firstOf returns the first place in a block.
func (f *Fleet) firstOf(b *block, c *cover) item {
	if f.standsFirst() {
		return b.items[0]
	}
	return item{0, c.lowest}
}

// look compares a node with the best so far, and reports whether it is better.
func (f *Fleet) look(id NodeID) bool {
	q := &f.question
	if !f.hasRoom(id, q.Request) {
		return false
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	at := f.placeOf(id)
	if s := f.leastScore(id, &quote, verdict); s == never || !f.best.yields(s, at) {
		return false
	}
	if verdict != hybrid.Known || f.wantsTopology(id) {
		var ok bool
		if quote, ok = f.askNode(id); !ok {
			return false
		}
	}
	s := f.scoreOf(id, q.Request, &quote)
	if !f.best.yields(s, at) {
		return false
	}
	f.best = finding{s, at}
	return true
}

// leastScore is the least that a node's score can be by what the summary says.
func (f *Fleet) leastScore(id NodeID, quote *hybrid.Quote, verdict hybrid.Verdict) score {
	switch {
	case verdict == hybrid.Refused:
		return never
	case verdict == hybrid.Known:
		return f.scoreOf(id, f.question.Request, quote)
	case verdict == hybrid.Unknown:
		return 0
	default:
		return f.indirect(id)
	}
}

// wantsTopology reports whether a node's topology decides, of which summaries do not tell.
func (f *Fleet) wantsTopology(id NodeID) bool {
	return f.options.Order == Candor && f.question.Class == hybrid.Sensitive && !f.summaries[id].IsFlat()
}

// askNode asks a node for its quote. What it has refused since it changed last it
// is not asked again.
func (f *Fleet) askNode(id NodeID) (hybrid.Quote, bool) {
	n, q := &f.nodes[id], &f.question
	known := q.plain && q.strict && q.Class == hybrid.Sensitive
	if known && slices.Contains(n.refused[:], q.need) {
		return hybrid.Quote{}, false
	}
	quote, err := n.Quote(&f.request)
	if known && err != nil {
		n.refused[n.asked%len(n.refused)] = q.need
		n.asked++
	}
	return quote, err == nil
}
