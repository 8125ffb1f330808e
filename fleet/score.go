package fleet

import "github.com/candor-project/candor/hybrid"

// A score is how good a node is for a container: less is better. Of nodes with
// the same score the one with the lowest number is taken.
type score uint64

// never is the score of a node where a container cannot be.
const never score = 1<<64 - 1

// scoreOf returns a node's score by the fleet's order from what the container
// would cost there, which hybrid.Node.Quote says.
func (f *Fleet) scoreOf(id NodeID, r *Request, cost *hybrid.Cost) score {
	switch order := f.options.Order; {
	case order == Least || order == Paper && r.Class == hybrid.Flexible:
		return 1<<shareBits - f.freeShare(id, r)
	case order == Most:
		return f.freeShare(id, r)
	case order == Paper:
		return pack(field{21, hybrid.MaxLimit - cost.Whole}, field{22, hybrid.MaxLimit + cost.Shared})
	default:
		return candorScore(cost)
	}
}

// candorScore is the order Candor: first the placements for which nobody has to
// move to make room; then the least added shared time; then the fewest NUMA nodes, L3
// domains and split cores; then best fit, the fewest shared CPUs left.
func candorScore(cost *hybrid.Cost) score {
	return pack(field{1, hybrid.Milli(min(cost.Moves, 1))}, field{22, hybrid.MaxLimit + cost.Shared},
		field{10, hybrid.Milli(cost.NUMAs)}, field{10, hybrid.Milli(cost.L3s)}, field{10, hybrid.Milli(cost.Splits)},
		field{11, hybrid.Milli(cost.FreeWhole)})
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
