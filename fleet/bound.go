package fleet

import "github.com/candor-project/candor/hybrid"

// A question is a request in the form that a decision needs.
type question struct {
	*Request
	need     int32 // CPU time that is guaranteed
	whole    int   // of a sensitive container: whole CPUs
	fraction int32 // of a sensitive container
	cpus     int   // whole CPUs, and one more for a fraction
	plain    bool
	strict   bool
	byMost   bool // whether Figures.MaxStrictLimit shows that moves can make room

	least uint64 // CPU time and the first further resources, as the first word of traits

	byShare    bool // the free share decides
	calmIsRoom bool // the demand beyond Figures.MaxUnlentGuarantee must be lent
}

func (f *Fleet) ask(r *Request) {
	f.decision++
	if !f.asked.same(r) {
		f.asked.copy(r)
		f.asks++
	}
	f.request = hybrid.Request{Class: r.Class, Policy: r.Policy, Topology: r.Topology, Limit: r.Limit, Guarantee: r.Guarantee}
	f.question = question{
		Request: r, need: int32(f.request.Guaranteed()), whole: int(r.Limit / 1000),
		cpus: r.Limit.CPUs(), plain: f.request.IsPlain(), strict: r.Policy == hybrid.Strict,
	}
	f.question.least = uint64(timeTrait(f.question.need))
	for i := range min(len(r.Resources), len(f.options.Resources), moreResources) {
		f.question.least |= uint64(f.unitsOf(i, r.Resources[i])) << ((int(traitFree1) + i) * laneBits)
	}
	if r.Class == hybrid.Sensitive {
		f.question.fraction = int32(r.Limit % 1000)
	}
	f.question.byShare = f.byShare(r.Class)
	f.question.calmIsRoom = f.options.Hybrid.MinShared == 0 // otherwise reserved time adds to the demand
	f.question.byMost = f.question.plain && f.question.strict && r.Class == hybrid.Sensitive && !f.byPaper()
}

// askedSize returns the size of a part's nodes, with its values for the question.
func (f *Fleet) askedSize(p *row) *size {
	s := &f.sizes[p.size]
	if s.asked != f.asks {
		f.askSize(s)
	}
	return s
}

func (f *Fleet) askSize(s *size) {
	s.asked = f.asks
	s.ask(&f.question, f.options.Order == Most)
}

// admitted returns the parts of a block of which a node may have the CPU time and the
// other resources, a bit for each.
func (s *shelf) admitted(q *question, b *block) (parts uint32) {
	for i := range b.count {
		if q.admits(s.row(b, i)) {
			parts |= 1 << i
		}
	}
	return parts
}

// admits reports whether a node of a part may have the CPU time and the other resources.
func (q *question) admits(p *row) bool {
	return lanesAtLeast(p.traits[0], q.least) == laneHighs
}

// boundByShare is bound for orders by the free share.
func (f *Fleet) boundByShare(p *row) score {
	q := &f.question
	if q.Class == hybrid.Sensitive && q.plain && p.get(traitOpaque) == 0 {
		if _, _, ok := q.directly(p, f.byPaper()); !ok && f.byPaper() {
			return never
		} else if !ok {
			return q.boundIndirect(p)
		}
	}
	most, size := f.options.Order == Most, f.askedSize(p)
	bound := size.shareScore(p.share, most)
	if most {
		bound = max(bound, size.corner(p))
	}
	return bound
}

func (f *Fleet) byPaper() bool { return f.options.Hybrid.Algorithm == hybrid.Paper }

// bound returns a score that no node of an admitted part is below.
func (f *Fleet) bound(p *row) score {
	q := &f.question
	switch {
	case q.byShare:
		return f.boundByShare(p)
	case !q.plain || p.get(traitOpaque) != 0:
		return 0
	case q.Class == hybrid.Flexible:
		return f.boundFlexible(p)
	}
	whole, shared, ok := q.directly(p, f.byPaper())
	switch {
	case !ok && f.byPaper():
		return never
	case !ok:
		return q.boundIndirect(p)
	case f.options.Order == Paper:
		return paperSensitive(hybrid.Milli(whole)*1000, hybrid.Milli(shared))
	default:
		return f.boundByPull(p, costScore(hybrid.Milli(shared), inOneDomain))
	}
}

// boundIndirect is bound for nodes without direct room.
func (q *question) boundIndirect(p *row) score {
	most := timeOf(p.get(traitFreeTime))
	if q.byMost {
		if most = timeOf(p.get(traitMostLimit)); most < q.need {
			return never
		}
	}
	return indirectly | score(hybrid.MaxLimit-min(hybrid.Milli(most), hybrid.MaxLimit))
}

// directly returns the highest whole CPUs that a sensitive container can have on a node of a part without moves, and the lowest shared
// time that this adds; ok is false if that is impossible.
func (q *question) directly(p *row, paper bool) (whole int, shared int32, ok bool) {
	if paper {
		return q.directlyPaper(p)
	}
	cpus := int(p.get(traitShared))
	switch {
	case int(p.get(traitSpare)) >= q.cpus:
		return q.whole, 0, true
	case cpus < q.whole, q.fraction > 0 && cpus < q.cpus && int32(p.get(traitRoom)) < q.fraction:
		return 0, 0, false
	case q.fraction == 0:
		shared = q.takes(p, 0)
		return q.whole, shared, shared < impossible
	}
	shared = q.joins(p)
	if cpus >= q.cpus {
		shared = min(shared, q.alone(p))
	}
	return q.whole, shared, shared < impossible
}

// impossible is more than any shared time.
const impossible = 1 << 30

// lends returns the least sensitive time that has to be lent if so much is taken from
// flexible containers' CPUs.
func (q *question) lends(p *row, time int32) int32 {
	if time <= timeOf(p.get(traitSlack)) {
		return 0
	}
	return p.lending(time - timeOf(p.get(traitSlackOne)))
}

// lending returns the lowest sensitive time on CPUs that must be lent, at least one CPU, to provide the lacking time.
func (p *row) lending(lacking int32) int32 {
	next, then := p.low(traitNextLent), p.low(traitThenLent)
	switch {
	case next >= 1000:
		return impossible
	case lacking <= 0:
		return next
	case then >= 1000:
		return impossible
	default:
		return next + (lacking+999-then)/(1000-then)*then
	}
}

// takes returns the least time that has to be lent for the whole CPUs, and so much time besides.
func (q *question) takes(p *row, besides int32) int32 {
	lent := q.lends(p, int32(q.whole)*1000+besides)
	if int(p.get(traitSpare)) >= q.whole {
		return lent
	}
	one := p.low(traitTakeOne)
	if one == hybrid.NoLoad {
		return impossible
	}
	return max(lent, one)
}

// alone returns the lowest time that becomes shared if the fraction gets a CPU of its own. Other CPUs, or this CPU, are lent for it.
func (q *question) alone(p *row) int32 {
	others := max(q.lends(p, int32(q.cpus)*1000), p.low(traitTakeOne))
	return min(others, q.fraction+q.takes(p, q.fraction))
}

// joins returns the lowest time that becomes shared if the fraction joins other fractions: on a CPU that is shared already, or on
// another CPU, which flexible containers can use from then on.
func (q *question) joins(p *row) int32 {
	shared := int32(impossible)
	if int32(p.get(traitSharedRoom)) >= q.fraction {
		shared = q.fraction + q.takes(p, q.fraction)
	}
	least := p.low(traitJoinLeast)
	if q.need > timeOf(p.get(traitSlack)) { // no other CPU can be given back for it
		least = p.low(traitNextLent)
	}
	if least+q.fraction <= 1000 {
		shared = min(shared, q.fraction+least+q.lends(p, int32(q.whole-1)*1000+q.fraction+least))
	}
	return shared
}

// directlyPaper is directly by the paper's algorithm.
func (q *question) directlyPaper(p *row) (whole int, shared int32, ok bool) {
	cpus := int(p.get(traitShared))
	switch {
	case cpus < q.whole:
		return q.joinedPaper(p, cpus)
	case q.fraction == 0:
		return q.whole, 0, true
	}
	// Paper joins a fraction to other fractions wherever it fits.
	shared, ok = q.fraction, !q.strict
	if int32(p.get(traitRoom)) >= q.fraction && q.strict { // a best-effort fraction can be split as well
		if ok = true; int32(p.get(traitSharedRoom)) < q.fraction {
			shared += p.low(traitJoinLeast)
		}
	}
	if cpus >= q.cpus && p.low(traitRoomLeast) < q.fraction {
		ok = true
		if shared = min(shared, q.fraction); p.get(traitWithNone) != 0 {
			shared = 0
		}
	}
	return q.whole, shared, ok
}

// joinedPaper is directlyPaper for fractions that are joined because whole CPUs are missing: on a CPU more than the missing CPUs.
func (q *question) joinedPaper(p *row, cpus int) (whole int, shared int32, ok bool) {
	missing := int32(q.whole - cpus)
	rest := missing*1000 + q.fraction
	return cpus, rest, !q.strict || q.fraction > 0 && (missing+1)*int32(p.get(traitTwoRooms))/2 >= rest
}

// boundFlexible is bound for flexible containers by the order Candor.
func (f *Fleet) boundFlexible(p *row) score {
	q := &f.question
	if f.byPaper() {
		return f.boundByPull(p, costScore(hybrid.Milli(p.low(traitFirstLent)), 0))
	}
	lent := int32(0)
	if q.need > timeOf(p.get(traitCalm)) {
		if lent = p.lending(q.need - timeOf(p.get(traitCalmOne))); !q.calmIsRoom && lent > 0 {
			lent = p.low(traitNextLent) // the time that is reserved for flexible containers can cover a part
		}
		if lent >= impossible {
			return never
		}
	}
	return f.boundByPull(p, costScore(hybrid.Milli(lent), 0))
}

// boundByPull is the bound by the order Candor where nodes cost at least as much.
func (f *Fleet) boundByPull(p *row, cost score) score {
	return cost | pullScore(f.askedSize(p).pull.most(p))
}
