package hybrid_test

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A question asks for the best arrangement: the question has the CPUs that no running container has exclusively, and the demands that must
// be placed on these CPUs. Every sensitive container must have exactly ceil(rest/1000) of the CPUs. All fractions may move.
//
// The answers rely on two facts, which TestOracle checks by brute force:
//
//   - Dividing a fraction among more CPUs never helps. If a container needs k-1 whole CPUs and a fraction f, and uses k
//     CPUs, the other containers on these CPUs have at most 1000m - f. All of them fit on one CPU together with f, and
//     the other k-1 CPUs become exclusive.
//   - Exactly the fractions that are alone on a CPU without flexible containers are not shared. The largest fractions should
//     be alone, because a smaller fraction that is alone leaves less room for the rest.
type question struct {
	cpus        int            // that no running container has exclusively
	rests       []hybrid.Milli // of the sensitive containers, beside their exclusive CPUs
	guarantees  hybrid.Milli   // of the flexible containers
	hasFlexible bool
	minShared   hybrid.Milli
}

// questionOf returns the question for the present grants of a node.
func questionOf(s state) question {
	q := question{cpus: s.usable.Count(), minShared: s.options.MinShared}
	for _, g := range s.grants {
		q.cpus -= g.Exclusive.Count()
		q.add(g.Request, g.Exclusive)
	}
	return q
}

// add adds a container that keeps some exclusive CPUs, which are not part of the question.
func (q *question) add(r hybrid.Request, exclusive cpuset.Set) {
	if r.Class == hybrid.Flexible {
		q.guarantees += guaranteed(r)
		q.hasFlexible = true
	} else if rest := r.Limit - hybrid.Milli(1000*exclusive.Count()); rest > 0 {
		q.rests = append(q.rests, rest)
	}
}

// with returns the question after an operation. A container whose limit shrinks keeps the exclusive CPUs that it still needs, and releases
// the others.
func (q question) with(op operation, s state) question {
	if op.kind == hybrid.OpAllocate {
		q.rests = slices.Clone(q.rests)
		q.add(op.request, cpuset.Set{})
		return q
	}
	s.grants = slices.Clone(s.grants)
	i := slices.IndexFunc(s.grants, func(g hybrid.Grant) bool { return g.ID == op.request.ID })
	g := &s.grants[i]
	g.Limit, g.Guarantee = op.request.Limit, op.request.Guarantee
	g.Exclusive = g.Exclusive.Lowest(int(g.Limit / 1000))
	return questionOf(s)
}

// split returns the number of whole CPUs that the containers need, and their fractions in descending order.
func (q question) split() (whole int, fractions []hybrid.Milli) {
	for _, rest := range q.rests {
		whole += int(rest / 1000)
		if f := rest % 1000; f > 0 {
			fractions = append(fractions, f)
		}
	}
	slices.Sort(fractions)
	slices.Reverse(fractions)
	return whole, fractions
}

// acceptable reports whether an arrangement exists.
func (q question) acceptable() bool { return q.leastShared() >= 0 }

// leastShared returns the lowest shared time of all arrangements; -1 if no arrangement exists.
func (q question) leastShared() hybrid.Milli {
	whole, fractions := q.split()
	cpus := q.cpus - whole
	if hybrid.Milli(1000*cpus)-sum(fractions) < q.minShared {
		return -1
	}
	need := hybrid.Milli(0)
	if q.hasFlexible {
		need = max(1, q.guarantees, q.minShared)
	}
	for alone := min(cpus, len(fractions)); alone >= 0; alone-- {
		rest, bins := fractions[alone:], cpus-alone
		if hybrid.Milli(1000*bins)-sum(rest) >= need && packs(rest, bins) {
			return sum(rest)
		}
	}
	return -1
}

func sum(fractions []hybrid.Milli) (s hybrid.Milli) {
	for _, f := range fractions {
		s += f
	}
	return s
}

// packs reports whether fractions, in descending order, fit into bins of 1000m. It packs exactly, bin by bin.
func packs(fractions []hybrid.Milli, bins int) bool {
	if len(fractions) <= bins {
		return true
	}
	slack := hybrid.Milli(1000*bins) - sum(fractions)
	if slack < 0 {
		return false
	}
	return firstFit(fractions, bins) || complete(fractions[1:], []hybrid.Milli{}, 1000-fractions[0], bins-1, slack)
}

// firstFit reports whether first-fit decreasing, which is fast, finds a packing.
func firstFit(fractions []hybrid.Milli, bins int) bool {
	used := make([]hybrid.Milli, bins)
	for _, f := range fractions {
		i := slices.IndexFunc(used, func(u hybrid.Milli) bool { return u+f <= 1000 })
		if i < 0 {
			return false
		}
		used[i] += f
	}
	return true
}

// complete fills the open bin with some of the candidates and continues with the next bin, which gets the largest remaining fraction. room
// is the room in the open bin. At most slack may stay empty in all bins. skipped are the fractions, in descending order, that remain for
// later bins.
func complete(candidates, skipped []hybrid.Milli, room hybrid.Milli, bins int, slack hybrid.Milli) bool {
	for i, f := range candidates {
		if f > room || i > 0 && f == candidates[i-1] {
			continue // too large, or tried just before
		}
		later := append(slices.Clone(skipped), candidates[:i]...)
		if complete(candidates[i+1:], later, room-f, bins, slack) {
			return true
		}
		if f == room {
			return false // nothing fills a bin better than one that fills it wholly
		}
	}
	if room > slack {
		return false
	}
	left := append(slices.Clone(skipped), candidates...)
	if len(left) <= bins || firstFit(left, bins) {
		return true
	}
	if bins == 0 {
		return false
	}
	return complete(left[1:], nil, 1000-left[0], bins-1, slack-room)
}
