package fleet

import (
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// A finding is the best node so far.
type finding struct {
	score score
	id    NodeID
}

// yields reports whether a score and a number, or the bounds of some, would be better.
func (a *finding) yields(s score, id NodeID) bool {
	return s < a.score || s == a.score && s != never && id < a.id
}

// choose finds the best node for the question that is asked.
func (f *Fleet) choose() (NodeID, error) {
	f.askKinds()
	f.best = finding{never, Nowhere}
	f.bestFirst()
	if f.best.score == never {
		return Nowhere, f.refusal()
	}
	return f.best.id, nil
}

// bestFirst opens blocks, those with the best bound first, until no other can have a better node.
func (f *Fleet) bestFirst() {
	f.candidates = f.candidates[:0]
	for k := range f.kinds {
		kind := f.kinds[k]
		shelf := f.shelfFor(kind, f.question.Class)
		if shelf.root == nil || shelf.root.count == 0 || !f.question.within(kind) || !f.question.admits(&shelf.cover) {
			continue
		}
		f.consider(f.bound(&shelf.cover), shelf.root, &shelf.cover)
	}
	for len(f.candidates) > 0 {
		c := f.candidates.pop()
		if !f.best.yields(c.bound, c.lowest) {
			return
		}
		if c.block == nil {
			f.lookAt(c.lowest)
			continue
		}
		if c.cover.loose {
			*c.cover = f.coverOf(c.block)
			f.consider(f.bound(c.cover), c.block, c.cover)
			continue
		}
		f.open(c.block)
	}
}

// consider makes a block a candidate if it may have a better node.
func (f *Fleet) consider(bound score, b *block, c *cover) {
	if f.best.yields(bound, c.lowest) {
		f.candidates.push(candidate{bound, c.lowest, b, c})
	}
}

// open looks at the parts of a block. It goes into the best part at once: what that
// has rules most of the others out.
func (f *Fleet) open(b *block) {
	if b.inner == nil {
		f.lookInto(b)
		return
	}
	var bounds [blockSize]score
	best, at := f.best, -1
	for i := range b.count {
		c := &b.inner.covers[i]
		if bounds[i] = f.bound(c); best.yields(bounds[i], c.lowest) {
			best, at = finding{bounds[i], c.lowest}, i
		}
	}
	if at < 0 {
		return
	}
	if !b.inner.covers[at].loose {
		f.open(b.inner.blocks[at])
		bounds[at] = never
	}
	for i := range b.count {
		if bounds[i] <= f.best.score {
			f.consider(bounds[i], b.inner.blocks[i], &b.inner.covers[i])
		}
	}
}

// lookInto looks at the nodes of a block.
func (f *Fleet) lookInto(b *block) {
	for i := range b.count {
		if it := &b.items[i]; it.free >= f.question.need {
			f.look(it.id)
		}
	}
}

// look compares a node with the best so far.
func (f *Fleet) look(id NodeID) {
	q := &f.question
	if !f.hasRoom(id, q.Request) {
		return
	}
	if f.byShare(q.Class) && !f.best.yields(f.shareScore(f.kinds[f.nodes[id].kind], f.share(id)), id) {
		return // whatever its view
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	s := f.leastScore(id, &quote, verdict)
	switch {
	case s == never || !f.best.yields(s, id):
	case verdict == hybrid.NotDirect: // it is asked when it has come to that
		f.candidates.push(candidate{bound: s, lowest: id})
	case verdict == hybrid.Known && !f.wantsTopology(id):
		f.best = finding{s, id}
	default:
		f.lookAt(id)
	}
}

// lookAt asks a node itself what it would cost, and compares it with the best so far.
func (f *Fleet) lookAt(id NodeID) {
	quote, ok := f.askNode(id)
	if !ok {
		return
	}
	if s := f.scoreOf(id, f.question.Request, &quote); f.best.yields(s, id) {
		f.best = finding{s, id}
	}
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
