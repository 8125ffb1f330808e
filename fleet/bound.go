package fleet

import "github.com/candor-project/candor/hybrid"

// A query is a request in the form that a decision needs.
type query struct {
	*Request
	need             int32 // CPU time that is guaranteed
	whole            int   // of a sensitive container: whole CPUs
	fraction         int32 // of a sensitive container
	cpus             int   // whole CPUs, and one more for a fraction
	isPlain          bool
	isStrict         bool
	byMaxStrictLimit bool // whether Figures.MaxStrictLimit shows that moves can make room

	minFeatures uint64 // CPU time and the first further resources, as the first word of traits

	byFreeShare         bool // the free share decides
	lendsAboveMaxUnlent bool // the demand beyond Figures.MaxUnlentGuarantee must be lent
}

func (f *Fleet) setQuery(r *Request) {
	f.decisions++
	if !f.lastRequest.equals(r) {
		f.lastRequest.copyFrom(r)
		f.queryVersion++
	}
	f.request = hybrid.Request{Class: r.Class, Policy: r.Policy, Topology: r.Topology, Limit: r.Limit, Guarantee: r.Guarantee}
	f.query = query{
		Request: r, need: int32(f.request.Guaranteed()), whole: int(r.Limit / 1000),
		cpus: r.Limit.CPUs(), isPlain: f.request.IsPlain(), isStrict: r.Policy == hybrid.Strict,
	}
	f.query.minFeatures = uint64(encodeTime(f.query.need))
	for i := range min(len(r.Resources), len(f.options.Resources), indexedResources) {
		f.query.minFeatures |= uint64(f.unitsOf(i, r.Resources[i])) << ((int(featureFreeAmount1) + i) * laneBits)
	}
	if r.Class == hybrid.Sensitive {
		f.query.fraction = int32(r.Limit % 1000)
	}
	f.query.byFreeShare = f.byFreeShare(r.Class)
	f.query.lendsAboveMaxUnlent = f.options.Hybrid.MinShared == 0 // otherwise reserved time adds to the demand
	f.query.byMaxStrictLimit = f.query.isPlain && f.query.isStrict && r.Class == hybrid.Sensitive && !f.usesPaper()
}

// sizeForQuery returns the size of a part's nodes, with its values for the question.
func (f *Fleet) sizeForQuery(r *row) *size {
	s := &f.sizes[r.size]
	if s.queryVersion != f.queryVersion {
		f.updateSize(s)
	}
	return s
}

func (f *Fleet) updateSize(s *size) {
	s.queryVersion = f.queryVersion
	s.setQuery(&f.query, f.options.Order == Most)
}

// admitted returns the parts of a block of which a node may have the CPU time and the
// other resources, a bit for each.
func (s *nodeIndex) admitted(q *query, b *block) (children uint32) {
	for i := range b.count {
		if q.admits(s.rowOf(b, i)) {
			children |= 1 << i
		}
	}
	return children
}

// admits reports whether a node of a part may have the CPU time and the other resources.
func (q *query) admits(r *row) bool {
	return lanesAtLeast(r.features[0], q.minFeatures) == laneHighs
}

// boundByFreeShare is bound for orders by the free share.
func (f *Fleet) boundByFreeShare(r *row) score {
	q := &f.query
	if q.Class == hybrid.Sensitive && q.isPlain && r.get(featureIsOpaque) == 0 {
		if _, _, ok := q.boundDirect(r, f.usesPaper()); !ok && f.usesPaper() {
			return never
		} else if !ok {
			return q.boundIndirect(r)
		}
	}
	isMost, size := f.options.Order == Most, f.sizeForQuery(r)
	bound := size.shareScore(r.share, isMost)
	if isMost {
		bound = max(bound, size.cornerScore(r))
	}
	return bound
}

func (f *Fleet) usesPaper() bool { return f.options.Hybrid.Algorithm == hybrid.Paper }

// bound returns a score that no node of an admitted part is below.
func (f *Fleet) bound(r *row) score {
	q := &f.query
	switch {
	case q.byFreeShare:
		return f.boundByFreeShare(r)
	case !q.isPlain || r.get(featureIsOpaque) != 0:
		return 0
	case q.Class == hybrid.Flexible:
		return f.boundFlexible(r)
	}
	whole, shared, ok := q.boundDirect(r, f.usesPaper())
	switch {
	case !ok && f.usesPaper():
		return never
	case !ok:
		return q.boundIndirect(r)
	case f.options.Order == Paper:
		return paperScore(hybrid.Milli(whole)*1000, hybrid.Milli(shared))
	default:
		return f.boundByAlignment(r, costScore(hybrid.Milli(shared), inOneDomain))
	}
}

// boundIndirect is bound for nodes without direct room.
func (q *query) boundIndirect(r *row) score {
	limit := decodeTime(r.get(featureFreeTime))
	if q.byMaxStrictLimit {
		if limit = decodeTime(r.get(featureMaxStrictLimit)); limit < q.need {
			return never
		}
	}
	return minIndirectScore | score(hybrid.MaxLimit-min(hybrid.Milli(limit), hybrid.MaxLimit))
}

// boundDirect returns the highest whole CPUs that a sensitive container can have on a node of a part without moves, and the lowest shared
// time that this adds; ok is false if that is impossible.
func (q *query) boundDirect(r *row, paper bool) (whole int, shared int32, ok bool) {
	if paper {
		return q.boundDirectPaper(r)
	}
	cpus := int(r.get(featureSharedCPUs))
	switch {
	case int(r.get(featureSpareCPUs)) >= q.cpus:
		return q.whole, 0, true
	case cpus < q.whole, q.fraction > 0 && cpus < q.cpus && int32(r.get(featureMaxRoom)) < q.fraction:
		return 0, 0, false
	case q.fraction == 0:
		shared = q.minLentForWhole(r, 0)
		return q.whole, shared, shared < impossible
	}
	shared = q.minSharedJoined(r)
	if cpus >= q.cpus {
		shared = min(shared, q.minSharedAlone(r))
	}
	return q.whole, shared, shared < impossible
}

// impossible is more than any shared time.
const impossible = 1 << 30

// minLent returns the least sensitive time that has to be lent if so much is taken from
// flexible containers' CPUs.
func (q *query) minLent(r *row, time int32) int32 {
	if time <= decodeTime(r.get(featureSlack)) {
		return 0
	}
	return r.minLentFor(time - decodeTime(r.get(featureSlackPlusNext)))
}

// minLentFor returns the lowest sensitive time on CPUs that must be lent, at least one CPU, to provide the lacking time.
func (r *row) minLentFor(lacking int32) int32 {
	next, second := r.getInverted(featureNextLentInverted), r.getInverted(featureSecondLentInverted)
	switch {
	case next >= 1000:
		return impossible
	case lacking <= 0:
		return next
	case second >= 1000:
		return impossible
	default:
		return next + (lacking+999-second)/(1000-second)*second
	}
}

// minLentForWhole returns the least time that has to be lent for the whole CPUs, and so much time besides.
func (q *query) minLentForWhole(r *row, extra int32) int32 {
	lent := q.minLent(r, int32(q.whole)*1000+extra)
	if int(r.get(featureSpareCPUs)) >= q.whole {
		return lent
	}
	perCPU := r.getInverted(featureTakeCPUCostInverted)
	if perCPU == hybrid.NoLoad {
		return impossible
	}
	return max(lent, perCPU)
}

// minSharedAlone returns the lowest time that becomes shared if the fraction gets a CPU of its own. Other CPUs, or this CPU, are lent for it.
func (q *query) minSharedAlone(r *row) int32 {
	others := max(q.minLent(r, int32(q.cpus)*1000), r.getInverted(featureTakeCPUCostInverted))
	return min(others, q.fraction+q.minLentForWhole(r, q.fraction))
}

// minSharedJoined returns the lowest time that becomes shared if the fraction joins other fractions: on a CPU that is shared already, or on
// another CPU, which flexible containers can use from then on.
func (q *query) minSharedJoined(r *row) int32 {
	shared := int32(impossible)
	if int32(r.get(featureMaxSharedRoom)) >= q.fraction {
		shared = q.fraction + q.minLentForWhole(r, q.fraction)
	}
	joinCost := r.getInverted(featureMinJoinCostInverted)
	if q.need > decodeTime(r.get(featureSlack)) { // no other CPU can be given back for it
		joinCost = r.getInverted(featureNextLentInverted)
	}
	if joinCost+q.fraction <= 1000 {
		shared = min(shared, q.fraction+joinCost+q.minLent(r, int32(q.whole-1)*1000+q.fraction+joinCost))
	}
	return shared
}

// boundDirectPaper is directly by the paper's algorithm.
func (q *query) boundDirectPaper(r *row) (whole int, shared int32, ok bool) {
	cpus := int(r.get(featureSharedCPUs))
	switch {
	case cpus < q.whole:
		return q.boundJoinedPaper(r, cpus)
	case q.fraction == 0:
		return q.whole, 0, true
	}
	// Paper joins a fraction to other fractions wherever it fits.
	shared, ok = q.fraction, !q.isStrict
	if int32(r.get(featureMaxRoom)) >= q.fraction && q.isStrict { // a best-effort fraction can be split as well
		if ok = true; int32(r.get(featureMaxSharedRoom)) < q.fraction {
			shared += r.getInverted(featureMinJoinCostInverted)
		}
	}
	if cpus >= q.cpus && r.getInverted(featurePaperMaxRoomInverted) < q.fraction {
		ok = true
		if shared = min(shared, q.fraction); r.get(featurePaperNoFlexible) != 0 {
			shared = 0
		}
	}
	return q.whole, shared, ok
}

// boundJoinedPaper is directlyPaper for fractions that are joined because whole CPUs are missing: on a CPU more than the missing CPUs.
func (q *query) boundJoinedPaper(r *row, cpus int) (whole int, shared int32, ok bool) {
	missing := int32(q.whole - cpus)
	rest := missing*1000 + q.fraction
	return cpus, rest, !q.isStrict || q.fraction > 0 && (missing+1)*int32(r.get(featurePaperMaxTwoRooms))/2 >= rest
}

// boundFlexible is bound for flexible containers by the order Candor.
func (f *Fleet) boundFlexible(r *row) score {
	q := &f.query
	if f.usesPaper() {
		return f.boundByAlignment(r, costScore(hybrid.Milli(r.getInverted(featurePaperFirstLentInverted)), 0))
	}
	lent := int32(0)
	if q.need > decodeTime(r.get(featureMaxUnlent)) {
		if lent = r.minLentFor(q.need - decodeTime(r.get(featureMaxUnlentPlusNext))); !q.lendsAboveMaxUnlent && lent > 0 {
			lent = r.getInverted(featureNextLentInverted) // the time that is reserved for flexible containers can cover a part
		}
		if lent >= impossible {
			return never
		}
	}
	return f.boundByAlignment(r, costScore(hybrid.Milli(lent), 0))
}

// boundByAlignment is the bound by the order Candor where nodes cost at least as much.
func (f *Fleet) boundByAlignment(r *row, cost score) score {
	return cost | alignmentScore(f.sizeForQuery(r).alignment.upperBound(r))
}
