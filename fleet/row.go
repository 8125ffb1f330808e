package fleet

import "math"

// A row is what the index keeps of a node: figures from which bounds of its score are made. A row of many
// nodes has the best of each. It is as large as a cache line, since of most nodes nothing is in the caches.
type row struct {
	traits traits
	share  uint64 // what is free in all (Fleet.shareOf), where the order goes by it; the best is the least
	size   uint8  // index into Fleet.sizes; anySize where they differ
	kind   int32  // of one node: index into Fleet.kinds
}

// noRow is worse than the row of any node.
var noRow = row{share: math.MaxUint64}

// get returns a trait.
func (r *row) get(t trait) uint16 {
	return uint16(r.traits[t/lanes] >> (t % lanes * laneBits))
}

// low is a trait that is counted from the top.
func (r *row) low(t trait) int32 { return int32(top - r.get(t)) }

// raise makes a row tell of one more node, or of more, and reports whether it did not before.
func (r *row) raise(by *row) (raised bool) {
	for i, word := range by.traits {
		if most := lanesMost(word, r.traits[i]); most != r.traits[i] {
			r.traits[i], raised = most, true
		}
	}
	if by.share < r.share {
		r.share, raised = by.share, true
	}
	if by.size != r.size && r.size != anySize {
		r.size, raised = anySize, true
	}
	return raised
}

// bestOf returns the row that tells of some others, word by word: so the best so far is in a register.
func bestOf(rows []*row) row {
	best := noRow
	if len(rows) > 0 {
		best.size = rows[0].size
	}
	for _, r := range rows {
		best.share = min(best.share, r.share)
		if r.size != best.size {
			best.size = anySize
		}
	}
	for i := range best.traits {
		most := uint64(0)
		for _, r := range rows {
			most = lanesMost(r.traits[i], most)
		}
		best.traits[i] = most
	}
	return best
}

// A fall is which figures of a node are worse than they were, so that a row that tells of it
// may promise too much.
type fall struct {
	traits traits // the highest bit of each
	share  bool
	gone   bool // the node itself is gone
}

// fallOf returns what is worse now.
func fallOf(before, now *row) (f fall) {
	for i, word := range now.traits {
		f.traits[i] = laneHighs &^ lanesAtLeast(word, before.traits[i])
	}
	f.share = now.share > before.share
	return f
}

// goneOf is the fall of a node that is gone.
func goneOf(before *row) fall {
	f := fallOf(before, &noRow)
	f.share, f.gone = true, true
	return f
}

// hangsOn reports whether a row would promise less without what a node was before its fall.
func (r *row) hangsOn(before *row, f *fall) bool {
	hangs := uint64(0)
	for i, word := range before.traits {
		hangs |= lanesEqual(word, r.traits[i]) & f.traits[i]
	}
	return hangs != 0 || f.share && before.share == r.share
}
