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
	best, ok := f.answer()
	if !ok {
		best = f.search(f.recent.current)
	}
	if best.score == never {
		return Nowhere, f.refusal()
	}
	return best.id, nil
}

// search finds the best node among all, and as many of the next best as the answer wants.
func (f *Fleet) search(a *answer) finding {
	f.askSizes()
	a.known, a.rest, a.upTo = a.known[:0], finding{never, Nowhere}, f.recent.changes
	f.wanted, f.best = a.wants(&f.question), a.rest
	f.bestFirst()
	if f.best.yields(a.rest.score, a.rest.id) {
		f.best = a.rest // where it came to nodes that have to be asked
	}
	if a.rest = f.best; len(a.known) == 0 {
		return finding{never, Nowhere}
	}
	return a.known[0]
}

// bestFirst opens blocks, those with the best bound first, until no other can have a better node.
func (f *Fleet) bestFirst() {
	f.candidates = f.candidates[:0]
	shelf := f.shelfFor(f.question.Class)
	if shelf.top != nil {
		f.consider(part{shelf.top, 0})
	}
	for len(f.candidates) > 0 {
		c := f.candidates.pop()
		switch {
		case !f.best.yields(c.bound, c.lowest):
			return
		case c.bound >= indirectly && f.recent.current.beats(c.bound, c.lowest): // no need to ask more
			f.recent.current.rest = finding{c.bound, c.lowest}
			return
		case c.part.block == nil:
			f.lookLate(c.lowest, c.bound)
		case c.part.isLoose(c.part.at):
			shelf.tighten(c.part.block, c.part.at)
			f.consider(c.part)
		default:
			f.open(c.part.blocks[c.part.at])
		}
	}
}

// find makes a node known that is better than the worst of as many as are wanted.
func (f *Fleet) find(s score, id NodeID) {
	a := f.recent.current
	a.learn(finding{s, id})
	if len(a.known) >= f.wanted {
		a.known = a.known[:f.wanted]
		f.best = a.known[f.wanted-1]
	}
}

// consider makes a part a candidate if it may have a better node.
func (f *Fleet) consider(p part) {
	r := f.shelfFor(f.question.Class).row(p.block, p.at)
	if !f.question.admits(r) {
		return
	}
	if bound := f.bound(r); f.best.yields(bound, p.lowest[p.at]) {
		f.candidates.push(candidate{bound, p.lowest[p.at], p})
	}
}

// open looks at the parts of a block. It goes into the best part at once: what that
// has rules most of the others out.
func (f *Fleet) open(b *block) {
	var bounds [blockSize]score
	best, at := f.best, -1
	shelf := f.shelfFor(f.question.Class)
	parts := shelf.admitted(&f.question, b)
	for rest := parts; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest)
		if bounds[i] = f.bound(shelf.row(b, i)); best.yields(bounds[i], b.lowest[i]) {
			best, at = finding{bounds[i], b.lowest[i]}, i
		}
	}
	if at < 0 {
		return
	}
	if b.inner == nil && bounds[at] < indirectly {
		f.look(b.lowest[at])
		parts &^= 1 << at
	} else if b.inner != nil && !b.isLoose(at) {
		f.open(b.blocks[at])
		parts &^= 1 << at
	}
	for ; parts != 0; parts &= parts - 1 {
		switch i := bits.TrailingZeros32(parts); {
		case !f.best.yields(bounds[i], b.lowest[i]):
		case b.inner == nil && bounds[i] < indirectly:
			f.look(b.lowest[i])
		case b.inner == nil:
			f.candidates.push(candidate{bound: bounds[i], lowest: b.lowest[i]})
		default:
			f.candidates.push(candidate{bounds[i], b.lowest[i], part{b, i}})
		}
	}
}

// look compares a node with the best so far.
func (f *Fleet) look(id NodeID) {
	switch s, verdict := f.assess(id); {
	case s == never:
	case verdict == hybrid.NotDirect: // it is asked when it has come to that
		f.candidates.push(candidate{bound: s, lowest: id})
	case verdict == hybrid.Unknown:
		f.compare(id)
	default:
		f.find(s, id)
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
		f.compare(id)
	}
}

// compare compares a node that has to be asked with the best so far.
func (f *Fleet) compare(id NodeID) {
	if s := f.askNode(id); f.best.yields(s, id) {
		f.find(s, id)
	}
}

// evaluate returns a node's score, or never if it is not better than the best so far.
func (f *Fleet) evaluate(id NodeID) score {
	s, verdict := f.assess(id)
	if s != never && verdict != hybrid.Known {
		s = f.askNode(id)
	}
	if !f.best.yields(s, id) {
		return never
	}
	return s
}

// assess returns a node's score as far as its summary tells (the least that it can be, unless the verdict
// is hybrid.Known), or never if it is not better than the best so far.
func (f *Fleet) assess(id NodeID) (score, hybrid.Verdict) {
	r := f.question.Request
	if !f.hasAmounts(id, r) || f.question.byShare && !f.best.yields(f.shareScore(id), id) {
		return never, hybrid.Refused
	}
	quote, verdict := f.summaries[id].Quote(&f.request)
	s := score(0)
	switch verdict {
	case hybrid.Known:
		if s = f.scoreOf(id, r, &quote); f.wantsTopology(id) {
			verdict = hybrid.Unknown
		}
	case hybrid.NotDirect:
		s = f.indirect(id)
	case hybrid.Refused:
		s = never
	}
	if !f.best.yields(s, id) || f.isTaken(id, r) {
		return never, hybrid.Refused
	}
	return s, verdict
}

// wantsTopology reports whether a node's topology decides, of which summaries do not tell.
func (f *Fleet) wantsTopology(id NodeID) bool {
	return f.options.Order == Candor && f.question.Class == hybrid.Sensitive && !f.summaries[id].IsFlat()
}

// askNode asks a node itself what the container would cost there, and returns its score. What it has
// refused since it changed last it is not asked again.
func (f *Fleet) askNode(id NodeID) score {
	n, q := &f.nodes[id], &f.question
	known := q.Wish == hybrid.Prefer && q.strict && q.Class == hybrid.Sensitive
	if known && slices.Contains(n.refused[:], q.need) {
		return never
	}
	quote, err := n.Quote(&f.request)
	if err == nil {
		return f.scoreOf(id, q.Request, &quote)
	}
	if known {
		n.refused[n.asked%len(n.refused)] = q.need
		n.asked++
	}
	return never
}
