package fleet

import "github.com/candor-project/candor/hybrid"

// A score is how good a node is for a container: less is better. Of nodes with
// the same score the one with the lowest number is taken.
type score uint64

// never is the score of a node where a container cannot be.
const never score = 1<<64 - 1

// scoreOf returns a node's score by the fleet's order from what the container
// would cost there.
func (f *Fleet) scoreOf(id NodeID, r *Request, q *hybrid.Quote) score {
	switch order := f.options.Order; {
	case order == Least || order == Paper && r.Class == hybrid.Flexible:
		return 1<<shareBits - f.freeShare(id, r)
	case order == Most:
		return f.freeShare(id, r)
	case !q.Direct:
		return indirect(f.nodes[id].Free(r.Class))
	case order == Paper:
		return pack(field{21, hybrid.MaxLimit - q.Whole}, field{22, hybrid.MaxLimit + q.Shared})
	case r.Class == hybrid.Flexible:
		return f.candorFlexible(id, r, q)
	default:
		return candorSensitive(&q.Cost)
	}
}

// indirect is the score where others have to move to make room, or where the view
// would be too wide: such nodes come last, and of them the one with the most free CPU time.
func indirect(free hybrid.Milli) score {
	return 1<<63 | score(hybrid.MaxLimit-free)
}

// candorSensitive is the order Candor for sensitive containers: the least added shared
// time; then the fewest NUMA nodes, L3 domains and split cores; then best fit, the fewest
// shared CPUs left.
func candorSensitive(cost *hybrid.Cost) score {
	return pack(field{22, hybrid.MaxLimit + cost.Shared}, field{10, hybrid.Milli(cost.NUMAs)}, field{10, hybrid.Milli(cost.L3s)},
		field{10, hybrid.Milli(cost.Splits)}, field{11, hybrid.Milli(cost.FreeWhole)})
}

// candorFlexible is the order Candor for flexible containers: the least added shared time;
// then the fewest whole CPUs that sensitive containers can no longer have without sharing; then
// best fit, the fewest such CPUs left.
func (f *Fleet) candorFlexible(id NodeID, r *Request, q *hybrid.Quote) score {
	var s hybrid.Summary
	f.nodes[id].Summarize(&s)
	left := s.SpareWith(f.need(r))
	return pack(field{22, hybrid.MaxLimit + q.Shared}, field{11, hybrid.Milli(s.Spare() - left)}, field{11, hybrid.Milli(left)})
}

// A field is a figure of a score: the first one decides.
type field struct {
	bits  uint
	value hybrid.Milli
}

// pack puts fields into a score. A value above its field's counts as the largest.
func pack(fields ...field) score {
	var s score
	for _, f := range fields {
		s = s<<f.bits | score(min(f.value, 1<<f.bits-1))
	}
	return s
}

// freeShare is the mean share of a node's resources that is free after a placement.
func (f *Fleet) freeShare(id NodeID, r *Request) score {
	n := &f.nodes[id]
	w := &f.kinds[n.kind].weigher
	sum := w.weigh(int64(n.Free(hybrid.Flexible)-f.need(r)), n.free)
	return score(w.share(sum - w.weigh(0, r.Resources)))
}
