package fleet

import (
	"math/bits"
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
	f.askSizes()
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
	if shelf := f.shelfFor(f.question.Class); shelf.top != nil {
		f.consider(part{shelf.top, 0})
	}
	for len(f.candidates) > 0 {
		c := f.candidates.pop()
		switch {
		case !f.best.yields(c.bound, c.lowest):
			return
		case c.part.block == nil:
			f.lookLate(c.lowest, c.bound)
		case c.part.loose[c.part.at] != 0:
			c.part.tighten(c.part.at)
			f.consider(c.part)
		default:
			f.open(c.part.blocks[c.part.at])
		}
	}
}

// consider makes a part a candidate if it may have a better node.
func (f *Fleet) consider(p part) {
	if !f.question.admits(p) {
		return
	}
	if bound := f.bound(p); f.best.yields(bound, p.lowest[p.at]) {
		f.candidates.push(candidate{bound, p.lowest[p.at], p})
	}
}

// open looks at the parts of a block. It goes into the best part at once: what that
// has rules most of the others out.
func (f *Fleet) open(b *block) {
	var bounds [blockSize]score
	best, at := f.best, -1
	parts := f.question.admitted(b)
	for rest := parts; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest)
		if bounds[i] = f.bound(part{b, i}); best.yields(bounds[i], b.lowest[i]) {
			best, at = finding{bounds[i], b.lowest[i]}, i
		}
	}
	if at < 0 {
		return
	}
	if b.blocks == nil && bounds[at] < indirectly {
		f.look(b.lowest[at])
		parts &^= 1 << at
	} else if b.blocks != nil && b.loose[at] == 0 {
		f.open(b.blocks[at])
		parts &^= 1 << at
	}
	for ; parts != 0; parts &= parts - 1 {
		switch i := bits.TrailingZeros32(parts); {
		case !f.best.yields(bounds[i], b.lowest[i]):
		case b.blocks == nil && bounds[i] < indirectly:
			f.look(b.lowest[i])
		case b.blocks == nil:
			f.candidates.push(candidate{bound: bounds[i], lowest: b.lowest[i]})
		default:
			f.candidates.push(candidate{bounds[i], b.lowest[i], part{b, i}})
		}
	}
}

// look compares a node with the best so far.
func (f *Fleet) look(id NodeID) {
	q := &f.question
	if !f.hasRoom(id, q.Request) {
		return
	}
	if f.byShare(q.Class) && !f.best.yields(f.shareScore(id), id) {
		return // whatever its view
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	s := f.leastScore(id, &quote, verdict)
	switch {
	case s == never || !f.best.yields(s, id):
	case verdict == hybrid.NotDirect:
		f.candidates.push(candidate{bound: s, lowest: id})
	case verdict == hybrid.Known && !f.wantsTopology(id):
		f.best = finding{s, id}
	default:
		f.lookAt(id)
	}
}

// lookLate looks at a node without direct room when it has come to that. What it has a bound of
// may be too low.
func (f *Fleet) lookLate(id NodeID, bound score) {
	switch least := f.indirect(id); {
	case !f.hasRoom(id, f.question.Request):
	case least > bound:
		f.candidates.push(candidate{bound: least, lowest: id})
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
