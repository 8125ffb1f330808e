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
	f.best = finding{never, item{id: Nowhere}}
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
		if shelf.root == nil || shelf.root.count == 0 || !f.question.within(kind) || !f.question.admits(&shelf.cover) {
			continue
		}
		kind.shift = kind.weigher.weigh(int64(f.question.need), f.question.Resources)
		f.consider(f.bound(&shelf.cover), f.firstOf(&shelf.root.items[0], &shelf.cover), shelf.root, &shelf.cover)
	}
	for len(f.candidates) > 0 {
		c := f.candidates.pop()
		if !f.best.yields(c.bound, c.first) {
			return
		}
		if c.block == nil {
			f.lookAt(c.first)
			continue
		}
		if c.cover.loose {
			*c.cover = f.coverOf(c.block)
			f.consider(f.bound(c.cover), f.firstOf(&c.block.items[0], c.cover), c.block, c.cover)
			continue
		}
		f.open(c.block, c.bound)
	}
}

// consider makes a block a candidate if it may have a better node.
func (f *Fleet) consider(bound score, first item, b *block, c *cover) {
	if f.best.yields(bound, first) {
		f.candidates.push(candidate{bound, first, b, c})
	}
}

// open looks at the parts of a block. It goes into the best part at once: what that
// has rules most of the others out.
func (f *Fleet) open(b *block, bound score) {
	if b.inner == nil {
		f.lookInto(b, bound)
		return
	}
	var bounds [blockSize]score
	best, at := f.best, -1
	for i := range b.count {
		bounds[i] = f.bound(&b.inner.covers[i])
		if first := f.firstOf(&b.items[i], &b.inner.covers[i]); best.yields(bounds[i], first) {
			best, at = finding{bounds[i], first}, i
		}
	}
	if at < 0 {
		return
	}
	if !b.inner.covers[at].loose {
		f.open(b.inner.blocks[at], bounds[at])
		bounds[at] = never
	}
	for i := range b.count {
		if bounds[i] <= f.best.score {
			f.consider(bounds[i], f.firstOf(&b.items[i], &b.inner.covers[i]), b.inner.blocks[i], &b.inner.covers[i])
		}
	}
}

// lookInto looks at the nodes of a block, up to one than which none of them can be better.
func (f *Fleet) lookInto(b *block, bound score) {
	inOrder := f.standsFirst()
	for i := range b.count {
		it := &b.items[i]
		if it.free >= f.question.need && f.look(it.id) && inOrder && f.best.score == bound {
			return
		}
	}
}

// standsFirst reports whether of nodes with the same score the one that stands first on its
// shelf is the best, and not the one with the lowest number.
func (f *Fleet) standsFirst() bool { return f.options.Order == Candor }

// placeOf returns what decides between a node and others with its score.
func (f *Fleet) placeOf(id NodeID) item {
	if f.standsFirst() {
		return item{key: f.nodes[id].keys[f.question.Class], id: id}
	}
	return item{id: id}
}

// firstOf returns the first place in a block, of which the first node and the cover are given.
func (f *Fleet) firstOf(first *item, c *cover) item {
	if f.standsFirst() {
		return *first
	}
	return item{id: c.lowest}
}

// look compares a node with the best so far, and reports whether it is better.
func (f *Fleet) look(id NodeID) bool {
	q := &f.question
	if !f.hasRoom(id, q.Request) {
		return false
	}
	at := f.placeOf(id)
	if f.byShare(q.Class) && !f.best.yields(f.shareScore(&f.kinds[f.nodes[id].kind], f.share(id)), at) {
		return false // whatever its view
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	s := f.leastScore(id, &quote, verdict)
	switch {
	case s == never || !f.best.yields(s, at):
		return false
	case verdict == hybrid.NotDirect: // it is asked when it has come to that
		f.candidates.push(candidate{bound: s, first: at})
		return false
	case verdict == hybrid.Known && !f.wantsTopology(id):
		f.best = finding{s, at}
		return true
	default:
		return f.lookAt(at)
	}
}

// lookAt asks a node itself what it would cost, and reports whether it is better than the best so far.
func (f *Fleet) lookAt(at item) bool {
	quote, ok := f.askNode(at.id)
	if !ok {
		return false
	}
	s := f.scoreOf(at.id, f.question.Request, &quote)
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
