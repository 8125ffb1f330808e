package hybrid_test

import (
	"slices"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// An arrangement question: CPUs that no running container has exclusively, and
// what has to be on them. Every sensitive container must have exactly ceil(rest/1000)
// of the CPUs, strictly; all fractions may move.
//
// What the answers rest on, checked by brute force in TestOracle:
//
//   - Splitting a fraction over more CPUs never helps. In the k CPUs of a container
//     that needs k-1 whole CPUs and a fraction f, the others have 1000m - f at
//     most: all of that fits on one CPU together with f, and the k-1 other CPUs
//     become the container's alone.
//   - Fractions alone on a CPU that no flexible container uses are not shared, all
//     others are. It is best to give the largest ones such CPUs: exchanging a
//     larger one for a smaller one leaves more room for the rest.
type question struct {
	cpus        int            // that no running container has exclusively
	rests       []hybrid.Milli // of the sensitive containers, beside their exclusive CPUs
	guarantees  hybrid.Milli   // of the flexible containers
	hasFlexible bool
	minShared   hybrid.Milli
}

// questionOf asks how the grants of a node could be arranged best.
func questionOf(s state) question {
	q := question{cpus: s.usable.Count(), minShared: s.options.MinShared}
	for _, g := range s.grants {
		q.cpus -= g.Exclusive.Count()
		q.add(g.Request, g.Exclusive)
	}
	return q
}

// add adds a container that has some exclusive CPUs, which the question does
// not count, and keeps them.
func (q *question) add(r hybrid.Request, exclusive cpuset.Set) {
	if r.Class == hybrid.Flexible {
		q.guarantees += guaranteed(r)
		q.hasFlexible = true
	} else if rest := r.Limit - hybrid.Milli(1000*exclusive.Count()); rest > 0 {
		q.rests = append(q.rests, rest)
	}
}

// with returns the question after an operation. A container that shrinks
// keeps the exclusive CPUs that it still needs and gives the others back.
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

// split returns the whole CPUs that the containers need, and their fractions,
// largest first.
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

// acceptable tells whether any arrangement exists.
func (q question) acceptable() bool { return q.leastShared() >= 0 }

// leastShared returns the least shared time that an arrangement can have, -1 if there is none.
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

// packs tells whether fractions, largest first, fit into bins of 1000m: exact bin
// packing, bin by bin.
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

// firstFit tries the quick way, first fit decreasing.
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

// complete fills the open bin, which has room, with some of the candidates, then goes on with
// the next bin, which takes the largest fraction that is left. Of the room
// in all bins slack may stay empty. skipped are fractions, largest first, that
// were left for later bins.
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
