package fleet

import "github.com/candor-project/candor/hybrid"

// A finding is the best node so far.
type finding struct {
	id    NodeID
	score score
}

// yields reports whether a score and a number, or the bounds of some, would be better.
func (a *finding) yields(s score, id NodeID) bool {
	return s < a.score || s == a.score && s != never && id < a.id
}

// A candidate is a block that may have a better node.
type candidate struct {
	bound  score
	lowest NodeID
	block  *block
	cover  *cover
}

// choose finds the best node for the question that is asked.
func (f *Fleet) choose() (NodeID, error) {
	f.best = finding{Nowhere, never}
	byShare := f.byShare(f.question.Class)
	if byShare {
		f.walkShares()
	}
	if !byShare || f.best.score >= indirectly && f.mayMakeRoom() {
		f.bestFirst()
	}
	if f.best.id == Nowhere {
		return Nowhere, f.refusal()
	}
	return f.best.id, nil
}

// bestFirst opens blocks, those with the best bound first, until no other can have a better node.
func (f *Fleet) bestFirst() {
	f.candidates = f.candidates[:0]
	for k := range f.kinds {
		if shelf := f.shelfFor(&f.kinds[k], f.question.Class); shelf.root != nil && shelf.root.count > 0 {
			f.consider(shelf.root, &shelf.cover)
		}
	}
	for {
		first := f.firstCandidate()
		if first < 0 {
			return
		}
		c := f.candidates[first]
		if c.cover.loose {
			*c.cover = f.coverOf(c.block)
			c.bound, c.lowest = f.bound(c.cover), c.cover.lowest
			f.candidates[first] = c
			continue
		}
		last := len(f.candidates) - 1
		f.candidates[first] = f.candidates[last]
		f.candidates = f.candidates[:last]
		if c.block.inner == nil {
			for i := range c.block.count {
				f.look(c.block.items[i].id)
			}
			continue
		}
		for i := range c.block.count {
			f.consider(c.block.inner.blocks[i], &c.block.inner.covers[i])
		}
	}
}

// consider makes a block a candidate if it may have a better node.
func (f *Fleet) consider(b *block, c *cover) {
	if bound := f.bound(c); f.best.yields(bound, c.lowest) {
		f.candidates = append(f.candidates, candidate{bound, c.lowest, b, c})
	}
}

// firstCandidate returns the candidate with the best bound, or -1 if none can have a better node.
func (f *Fleet) firstCandidate() int {
	first := finding{Nowhere, f.best.score}
	if f.best.id != Nowhere {
		first.id = f.best.id
	}
	at := -1
	for i := range f.candidates {
		if c := &f.candidates[i]; first.yields(c.bound, c.lowest) {
			first, at = finding{c.lowest, c.bound}, i
		}
	}
	return at
}

// walkShares walks each shelf in the order of shares, up to the first node with direct room.
func (f *Fleet) walkShares() {
	f.question.directOnly = true
	defer func() { f.question.directOnly = false }()
	for k := range f.kinds {
		kind := &f.kinds[k]
		shelf := f.shelfFor(kind, f.question.Class)
		if shelf.root == nil || shelf.root.count == 0 || !f.question.admits(&shelf.cover) {
			continue
		}
		f.question.shift = kind.weigher.weigh(int64(f.question.need), f.question.Resources)
		f.walkBlock(kind, shelf.root)
	}
}

// walkBlock walks a block of a shelf, and reports whether nothing better can come after it.
func (f *Fleet) walkBlock(k *kind, b *block) bool {
	for i := range b.count {
		if s := f.shareScore(k, b.items[i].key); s > f.best.score {
			return true
		}
		if b.inner == nil {
			if f.look(b.items[i].id) && f.best.score < indirectly {
				return true
			}
			continue
		}
		c, part := &b.inner.covers[i], b.inner.blocks[i]
		if !f.mayFitDirectly(c) {
			continue
		}
		if c.loose {
			if *c = f.coverOf(part); !f.mayFitDirectly(c) {
				continue
			}
		}
		if f.walkBlock(k, part) {
			return true
		}
	}
	return false
}

// look compares a node with the best so far, and reports whether it is better.
func (f *Fleet) look(id NodeID) bool {
	q := &f.question
	if !f.hasRoom(id, q.Request) {
		return false
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	if s := f.leastScore(id, &quote, verdict); s == never || !f.best.yields(s, id) {
		return false
	}
	if verdict != hybrid.Known || f.wantsTopology(id) {
		var ok bool
		if quote, ok = f.askNode(id); !ok {
			return false
		}
	}
	s := f.scoreOf(id, q.Request, &quote)
	if !f.best.yields(s, id) {
		return false
	}
	f.best = finding{id, s}
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
	case f.question.directOnly:
		return never
	default:
		return indirect(f.summaries[id].Free(f.question.Class))
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
	if known && n.refused == q.need {
		return hybrid.Quote{}, false
	}
	quote, err := n.Quote(&f.request)
	if known && err != nil {
		n.refused = q.need
	}
	return quote, err == nil
}
