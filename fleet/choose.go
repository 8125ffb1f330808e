package fleet

import (
	"github.com/candor-project/candor/hybrid"
)

// A finding is the best node so far.
type finding struct {
	id    NodeID
	score score
}

// worse reports whether a score and a number, or the bounds of some, would be better.
func (a *finding) worse(s score, id NodeID) bool {
	return s < a.score || s == a.score && s != never && id < a.id
}

// A candidate is a block that may have a better node.
type candidate struct {
	bound  score
	lowest NodeID
	shelf  *shelf
	at     int32
}

// choose finds the best node for the question that is asked.
func (f *Fleet) choose() (NodeID, error) {
	f.best = finding{Nowhere, never}
	if f.byShare(f.question.Class) {
		f.walkShares()
	} else {
		f.bestFirst()
	}
	if f.best.id == Nowhere {
		return Nowhere, f.refusal()
	}
	return f.best.id, nil
}

// bestFirst opens blocks, those with the best bound first, until no other can have a better node.
func (f *Fleet) bestFirst() {
	list := f.candidates[:0]
	for k := range f.kinds {
		shelf := f.shelfFor(&f.kinds[k], f.question.Class)
		for at := range shelf.covers {
			c := &shelf.covers[at]
			if b := f.bound(c); b != never {
				list = append(list, candidate{b, c.lowest, shelf, int32(at)})
			}
		}
	}
	f.candidates = list
	for len(list) > 0 {
		first := 0
		for i := range list {
			if list[i].bound < list[first].bound || list[i].bound == list[first].bound && list[i].lowest < list[first].lowest {
				first = i
			}
		}
		c := &list[first]
		if !f.best.worse(c.bound, c.lowest) {
			return
		}
		if c.shelf.covers[c.at].loose {
			f.recover(c.shelf, int(c.at))
			cover := &c.shelf.covers[c.at]
			c.bound, c.lowest = f.bound(cover), cover.lowest
			continue
		}
		b := c.shelf.blocks[c.at]
		for i := range b.count {
			f.look(b.items[i].id)
		}
		*c = list[len(list)-1]
		list = list[:len(list)-1]
	}
}

// walkShares walks each shelf in the order of shares, up to the first node that will do.
func (f *Fleet) walkShares() {
	for k := range f.kinds {
		if kind := &f.kinds[k]; f.question.within(kind) {
			f.question.shift = kind.weigher.weigh(int64(f.question.need), f.question.Resources)
			f.walkShelf(kind)
		}
	}
}

func (f *Fleet) walkShelf(k *kind) {
	shelf := f.shelfFor(k, f.question.Class)
	for at := range shelf.covers {
		c := &shelf.covers[at]
		if !f.question.admits(c) {
			continue
		}
		if !f.best.worse(f.shareScore(k, c.first.key), c.lowest) {
			if f.shareScore(k, c.first.key) > f.best.score {
				return
			}
			continue
		}
		if c.loose {
			f.recover(shelf, at)
			if !f.question.admits(c) {
				continue
			}
		}
		b := shelf.blocks[at]
		for i := range b.count {
			if f.look(b.items[i].id) {
				return
			}
		}
	}
}

// within reports whether an empty node of a kind has the further resources.
func (q *question) within(k *kind) bool {
	for i, amount := range q.Resources {
		if amount > k.capacity[i] {
			return false
		}
	}
	return true
}

// look compares a node with the best so far, and reports whether it is better.
func (f *Fleet) look(id NodeID) bool {
	q := &f.question
	if !f.hasRoom(id, q.Request) {
		return false
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	s := f.leastScore(id, &quote, verdict)
	if s == never || !f.best.worse(s, id) {
		return false
	}
	if verdict != hybrid.Known || f.wantsTopology(id) {
		var ok bool
		if quote, ok = f.askNode(id); !ok {
			return false
		}
		if s = f.scoreOf(id, q.Request, &quote); !f.best.worse(s, id) {
			return false
		}
	}
	f.best = finding{id, s}
	return true
}

// leastScore is the least that a node's score can be by what the summary says.
func (f *Fleet) leastScore(id NodeID, quote *hybrid.Quote, verdict hybrid.Verdict) score {
	switch {
	case verdict == hybrid.Refused:
		return never
	case verdict == hybrid.Known || f.byShare(f.question.Class):
		return f.scoreOf(id, f.question.Request, quote)
	case verdict == hybrid.NotDirect:
		return indirect(hybrid.Milli(f.figures[id].Free[f.question.Class]))
	default:
		return 0
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

// hasRoom reports whether a node has the CPU time and the other resources for
// a container, and none of the same Spread.
func (f *Fleet) hasRoom(id NodeID, r *Request) bool {
	if f.figures[id].Free[r.Class] < f.question.need {
		return false
	}
	free := f.freeOf(id)
	for i, amount := range r.Resources {
		if free[i] < amount {
			return false
		}
	}
	if r.Spread == 0 {
		return true
	}
	_, taken := f.spread[spreadKey{r.Spread, id}]
	return !taken
}

// refusal says why the container of the question is nowhere.
func (f *Fleet) refusal() error {
	q := &f.question
	if q.Class == hybrid.Flexible || !q.strict {
		return hybrid.ErrNoCapacity
	}
	for k := range f.kinds {
		shelf := f.shelfFor(&f.kinds[k], q.Class)
		for at := range shelf.covers {
			if q.admits(&shelf.covers[at]) && f.anyRoom(shelf.blocks[at]) {
				return hybrid.ErrViewImpossible
			}
		}
	}
	return hybrid.ErrNoCapacity
}

// anyRoom reports whether a node of a block has room for the container.
func (f *Fleet) anyRoom(b *block) bool {
	for i := range b.count {
		if f.hasRoom(b.items[i].id, f.question.Request) {
			return true
		}
	}
	return false
}
