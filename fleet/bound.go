package fleet

import "github.com/candor-project/candor/hybrid"

// A question is a request, taken apart for one decision.
type question struct {
	*Request
	need     int32 // CPU time that is guaranteed
	whole    int   // of a sensitive container: whole CPUs
	fraction int32 // of a sensitive container
	cpus     int   // whole, and one if there is a fraction
	plain    bool
	strict   bool
	byMost   bool // Figures.Most tells whether others can make room

	easeIsRoom bool // what is asked for beyond Figures.Ease must be lent
}

func (f *Fleet) ask(r *Request) {
	f.request = hybrid.Request{ID: "new", Class: r.Class, Policy: r.Policy, Wish: r.Wish, Limit: r.Limit, Guarantee: r.Guarantee}
	f.question = question{
		Request: r, need: int32(f.request.Guaranteed()), whole: int(r.Limit / 1000),
		cpus: r.Limit.CPUs(), plain: f.request.IsPlain(), strict: r.Policy == hybrid.Strict,
	}
	if r.Class == hybrid.Sensitive {
		f.question.fraction = int32(r.Limit % 1000)
	}
	f.question.easeIsRoom = f.options.Hybrid.MinShared == 0 // else time is kept besides what is asked for
	f.question.byMost = f.question.plain && f.question.strict && r.Class == hybrid.Sensitive && !f.byPaper()
}

// askKinds sets what each kind makes of the question.
func (f *Fleet) askKinds() {
	for _, k := range f.kinds {
		k.ask(&f.question)
		k.shift = k.weigher.weigh(int64(f.question.need), f.question.Resources)
	}
}

// admits reports whether a node of a block may have the CPU time and the other resources.
func (q *question) admits(c *cover) bool {
	if c.Free[q.Class] < q.need {
		return false
	}
	asks := &c.kind.pull.asks
	for i := 1; i < coverShares; i++ {
		if int64(c.most[i]) < asks[i] {
			return false
		}
	}
	return true
}

// boundByShare is bound for orders that go by the share of what is free.
func (f *Fleet) boundByShare(c *cover) score {
	q := &f.question
	if q.Class == hybrid.Sensitive && q.plain && !c.Opaque {
		if _, _, ok := q.directly(c, f.byPaper()); !ok && f.byPaper() {
			return never
		} else if !ok {
			return q.boundIndirect(c)
		}
	}
	return f.shareScore(c.kind, c.share)
}

func (f *Fleet) byPaper() bool { return f.options.Hybrid.Algorithm == hybrid.Paper }

// bound returns a score that no node of a block is below.
func (f *Fleet) bound(c *cover) score {
	q := &f.question
	switch {
	case !q.admits(c):
		return never
	case f.byShare(q.Class):
		return f.boundByShare(c)
	case !q.plain || c.Opaque:
		return 0
	case q.Class == hybrid.Flexible:
		return q.boundFlexible(c, c.kind.pull.most(c))
	}
	whole, shared, ok := q.directly(c, f.byPaper())
	switch {
	case !ok && f.byPaper():
		return never
	case !ok:
		return q.boundIndirect(c)
	case f.options.Order == Paper:
		return paperSensitive(hybrid.Milli(whole)*1000, hybrid.Milli(shared))
	default:
		return candorScore(&hybrid.Cost{Shared: hybrid.Milli(shared), NUMAs: 1, L3s: 1}, c.kind.pull.most(c))
	}
}

// boundIndirect is bound for nodes without direct room.
func (q *question) boundIndirect(c *cover) score {
	if q.byMost && c.Most < q.need && !c.Opaque {
		return never
	}
	return q.indirect(&c.Figures)
}

// directly returns the most whole CPUs that a sensitive container can have on a node of a
// block as it is, and the least shared time that this adds; ok is false where it cannot be.
func (q *question) directly(c *cover, paper bool) (whole int, shared int32, ok bool) {
	enough := int(c.Shared) >= q.whole
	switch {
	case paper && !enough:
		return q.joined(c)
	case paper && q.fraction == 0, int(c.Spare) >= q.cpus && !paper:
		return q.whole, 0, true
	case paper:
		return q.paperFraction(c)
	case !enough || q.fraction > 0 && int(c.Shared) < q.cpus && int32(c.Room) < q.fraction:
		return 0, 0, false
	}
	lent, join := int32(0), q.joining(c)
	if int(c.Spare) < q.whole { // then CPUs are lent for the whole ones, and the fraction may join on them
		lent, join = int32(c.TakeOne), q.fraction
	}
	if q.fraction == 0 {
		return q.whole, lent, c.TakeOne < hybrid.NoLoad
	}
	shared = lent + join
	if int(c.Shared) >= q.cpus {
		shared = min(shared, max(lent, min(q.fraction, int32(c.TakeOne))))
	}
	return q.whole, shared, true
}

// joining returns the least shared time that a fraction adds which joins others.
func (q *question) joining(c *cover) int32 {
	if int32(c.SharedRoom) >= q.fraction {
		return q.fraction
	}
	return q.fraction + int32(c.JoinLeast)
}

// paperFraction is directly where the paper's algorithm has whole CPUs enough: it
// joins a fraction to others wherever there is room.
func (q *question) paperFraction(c *cover) (whole int, shared int32, ok bool) {
	shared, ok = q.fraction, !q.strict
	if int32(c.Room) >= q.fraction && q.strict { // a best-effort one may be cut into pieces, too
		shared, ok = q.joining(c), true
	}
	if int(c.Shared) >= q.cpus && int32(c.RoomLeast) < q.fraction {
		ok = true
		if shared = min(shared, q.fraction); c.WithNone {
			shared = 0
		}
	}
	return q.whole, shared, ok
}

// joined is directly where the paper's algorithm joins fractions for want of whole CPUs:
// on one CPU more than are missing.
func (q *question) joined(c *cover) (whole int, shared int32, ok bool) {
	whole = int(c.Shared)
	missing := int32(q.whole - whole)
	rest := missing*1000 + q.fraction
	return whole, rest, !q.strict || q.fraction > 0 && (missing+1)*int32(c.TwoRooms)/2 >= rest
}

// boundFlexible is bound for flexible containers by the order Candor.
func (q *question) boundFlexible(c *cover, pull int64) score {
	switch {
	case q.need <= c.Ease, c.Spare > 0:
		return candorScore(&hybrid.Cost{}, pull)
	case c.NextLent < 1000:
		lent := int32(1) // CPUs
		if q.easeIsRoom {
			room := 1000 - int32(c.NextLent) // on each of them, at most
			lent = (q.need - max(c.Ease, 0) + room - 1) / room
		}
		return candorScore(&hybrid.Cost{Shared: hybrid.Milli(lent * int32(c.NextLent))}, pull)
	default:
		return never
	}
}
