package fleet

import "github.com/candor-project/candor/hybrid"

// A query is a request in the form that a search needs, with values that are computed from the request once.
type query struct {
	*Request
	guaranteed       int32 // CPU time that counts toward the node's capacity, milli-CPU
	wholeCPUs        int   // number of whole CPUs in the limit
	fraction         int32 // rest of the limit of a sensitive container, milli-CPU
	cpus             int   // wholeCPUs, plus 1 for a fraction
	isPlain          bool  // hybrid.Request.IsPlain
	isStrict         bool
	byMaxStrictLimit bool // Figures.MaxStrictLimit applies to the request, so it shows whether moves can make room

	minFeatures uint64 // required CPU time and amounts of the first further resources, encoded as in the first word of features

	byFreeShare         bool // the order compares nodes by the free share
	lendsAboveMaxUnlent bool // if a flexible container requests more than Figures.MaxUnlentGuarantee, CPUs are lent for the whole excess
}

// setQuery makes a request the query of the next decision.
func (f *Fleet) setQuery(r *Request) {
	f.decisions++
	if !f.lastRequest.equals(r) {
		f.lastRequest.copyFrom(r)
		f.queryVersion++
	}
	f.request = hybrid.Request{Class: r.Class, Policy: r.Policy, Topology: r.Topology, Limit: r.Limit, Guarantee: r.Guarantee}
	f.query = query{
		Request: r, guaranteed: int32(f.request.Guaranteed()), wholeCPUs: int(r.Limit / 1000),
		cpus: r.Limit.CPUs(), isPlain: f.request.IsPlain(), isStrict: r.Policy == hybrid.Strict,
	}
	f.query.minFeatures = uint64(encodeTime(f.query.guaranteed))
	for i := range min(len(r.Resources), len(f.options.Resources), indexedResources) {
		f.query.minFeatures |= uint64(f.unitsOf(i, r.Resources[i])) << ((int(featureFreeAmount1) + i) * laneBits)
	}
	if r.Class == hybrid.Sensitive {
		f.query.fraction = int32(r.Limit % 1000)
	}
	f.query.byFreeShare = f.byFreeShare(r.Class)
	f.query.lendsAboveMaxUnlent = f.options.Hybrid.MinShared == 0 // otherwise the time that MinShared reserves can provide a part of the excess
	f.query.byMaxStrictLimit = f.query.isPlain && f.query.isStrict && r.Class == hybrid.Sensitive && !f.usesPaper()
}

// sizeForQuery returns the size that all nodes of a row share (see size). It first updates the fields of the size that depend on the query.
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

// admitted returns the children of a block that the query admits, one bit per child.
func (s *nodeIndex) admitted(q *query, b *block) (children uint32) {
	for i := range b.count {
		if q.admits(s.rowOf(b, i)) {
			children |= 1 << i
		}
	}
	return children
}

// admits reports whether a node of a row may have the required CPU time and amounts of the first further resources.
func (q *query) admits(r *row) bool {
	return lanesAtLeast(r.features[0], q.minFeatures) == laneHighs
}

// boundByFreeShare does the work of bound for a query that compares nodes by the free share.
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

// usesPaper reports whether the nodes use the paper's algorithm.
func (f *Fleet) usesPaper() bool { return f.options.Hybrid.Algorithm == hybrid.Paper }

// bound returns a lower bound on the scores of a row's nodes. The query must admit the row.
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

// boundIndirect returns the bound for nodes that can take the container only with moves, or with a wider view than necessary.
func (q *query) boundIndirect(r *row) score {
	limit := decodeTime(r.get(featureFreeTime))
	if q.byMaxStrictLimit {
		if limit = decodeTime(r.get(featureMaxStrictLimit)); limit < q.guaranteed {
			return never
		}
	}
	return minIndirectScore | score(hybrid.MaxLimit-min(hybrid.Milli(limit), hybrid.MaxLimit))
}

// boundDirect returns bounds for a sensitive container on a node of a row, without moves: the highest number of whole CPUs that the
// container can have, and the lowest shared time that the container adds. ok is false if no node can take the container without moves.
func (q *query) boundDirect(r *row, paper bool) (whole int, shared int32, ok bool) {
	if paper {
		return q.boundDirectPaper(r)
	}
	cpus := int(r.get(featureSharedCPUs))
	switch {
	case int(r.get(featureSpareCPUs)) >= q.cpus:
		return q.wholeCPUs, 0, true
	case cpus < q.wholeCPUs, q.fraction > 0 && cpus < q.cpus && int32(r.get(featureMaxRoom)) < q.fraction:
		return 0, 0, false
	case q.fraction == 0:
		shared = q.minLentForWhole(r, 0)
		return q.wholeCPUs, shared, shared < impossible
	}
	shared = q.minSharedJoined(r)
	if cpus >= q.cpus {
		shared = min(shared, q.minSharedAlone(r))
	}
	return q.wholeCPUs, shared, shared < impossible
}

// impossible is above every shared time.
const impossible = 1 << 30

// minLent returns the lowest lent time (see hybrid.Summary) that a node adds if its flexible containers lose the given time.
func (q *query) minLent(r *row, time int32) int32 {
	if time <= decodeTime(r.get(featureSlack)) {
		return 0
	}
	return r.minLentFor(time - decodeTime(r.get(featureSlackPlusNext)))
}

// minLentFor returns the lowest lent time that a node adds if it lends one or more CPUs. lacking is the time that flexible
// containers still lack after the first of these CPUs.
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

// minLentForWhole returns the lowest lent time that is added if flexible containers lose the container's whole CPUs and the extra time.
func (q *query) minLentForWhole(r *row, extra int32) int32 {
	lent := q.minLent(r, int32(q.wholeCPUs)*1000+extra)
	if int(r.get(featureSpareCPUs)) >= q.wholeCPUs {
		return lent
	}
	takeCost := r.getInverted(featureTakeCPUCostInverted)
	if takeCost == hybrid.NoLoad {
		return impossible
	}
	return max(lent, takeCost)
}

// minSharedAlone returns the lowest shared time that is added if the fraction is alone on a CPU. To replace this CPU, the node lends either
// other CPUs or this CPU itself to flexible containers.
func (q *query) minSharedAlone(r *row) int32 {
	others := max(q.minLent(r, int32(q.cpus)*1000), r.getInverted(featureTakeCPUCostInverted))
	return min(others, q.fraction+q.minLentForWhole(r, q.fraction))
}

// minSharedJoined returns the lowest shared time that is added if the fraction joins other fractions. The other fractions are on a CPU whose
// time is shared already, or on a CPU that the join makes shared (joinCost). In the second case, flexible containers can use the rest of that
// CPU, so the node lends less time elsewhere.
func (q *query) minSharedJoined(r *row) int32 {
	shared := int32(impossible)
	if int32(r.get(featureMaxSharedRoom)) >= q.fraction {
		shared = q.fraction + q.minLentForWhole(r, q.fraction)
	}
	joinCost := r.getInverted(featureMinJoinCostInverted)
	if q.guaranteed > decodeTime(r.get(featureSlack)) { // all lent CPUs must stay lent, so the fraction joins the CPU that is lent next
		joinCost = r.getInverted(featureNextLentInverted)
	}
	if joinCost+q.fraction <= 1000 {
		shared = min(shared, q.fraction+joinCost+q.minLent(r, int32(q.wholeCPUs-1)*1000+q.fraction+joinCost))
	}
	return shared
}

// boundDirectPaper does the work of boundDirect under the paper's algorithm.
func (q *query) boundDirectPaper(r *row) (whole int, shared int32, ok bool) {
	cpus := int(r.get(featureSharedCPUs))
	switch {
	case cpus < q.wholeCPUs:
		return q.boundJoinedPaper(r, cpus)
	case q.fraction == 0:
		return q.wholeCPUs, 0, true
	}
	// The paper's algorithm puts a fraction on a CPU with other fractions wherever it fits.
	shared, ok = q.fraction, !q.isStrict
	// A best-effort fraction can also be divided among several CPUs; the results ok and shared are already set for this
	// case.
	if int32(r.get(featureMaxRoom)) >= q.fraction && q.isStrict {
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
	return q.wholeCPUs, shared, ok
}

// boundJoinedPaper does the work of boundDirectPaper if the nodes have too few shared CPUs. The time of the missing CPUs and the
// fraction are divided among fractional CPUs. Their number exceeds the number of missing CPUs by at most 1.
func (q *query) boundJoinedPaper(r *row, cpus int) (whole int, shared int32, ok bool) {
	missing := int32(q.wholeCPUs - cpus)
	rest := missing*1000 + q.fraction
	return cpus, rest, !q.isStrict || q.fraction > 0 && (missing+1)*int32(r.get(featurePaperMaxTwoRooms))/2 >= rest
}

// boundFlexible returns a lower bound on the scores of a row's nodes for a flexible container, if Options.Order is Candor.
func (f *Fleet) boundFlexible(r *row) score {
	q := &f.query
	if f.usesPaper() {
		return f.boundByAlignment(r, costScore(hybrid.Milli(r.getInverted(featurePaperFirstLentInverted)), 0))
	}
	lent := int32(0)
	if q.guaranteed > decodeTime(r.get(featureMaxUnlent)) {
		if lent = r.minLentFor(q.guaranteed - decodeTime(r.get(featureMaxUnlentPlusNext))); !q.lendsAboveMaxUnlent && lent > 0 {
			lent = r.getInverted(featureNextLentInverted) // a single further CPU may suffice: time reserved by MinShared can provide the rest
		}
		if lent >= impossible {
			return never
		}
	}
	return f.boundByAlignment(r, costScore(hybrid.Milli(lent), 0))
}

// boundByAlignment combines a lower bound on the cost (costScore) with the highest alignment that a node of the row can have.
func (f *Fleet) boundByAlignment(r *row, cost score) score {
	return cost | alignmentScore(f.sizeForQuery(r).aligner.upperBound(r))
}
