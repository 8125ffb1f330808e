package fleet

import "math"

// A row holds the figures of a node from which bounds of its score are computed. The row of many nodes has the best of each figure. It has
// the size of a cache line, since most rows are in no CPU cache.
//
//	row of a block   = per figure, the best of its parts' rows
//	row of a node    = its own figures
//	loose            = the row can promise more than the nodes have, and is computed again on demand
type row struct {
	traits traits
	share  uint64 // free share (Fleet.shareOf), for orders that use it; less is better
	size   uint8  // index into Fleet.sizes; anySize where they differ
	kind   int32  // of a single node: index into Fleet.kinds
}

// noRow is worse than the row of any node.
var noRow = row{share: math.MaxUint64}

// get returns a trait.
func (r *row) get(t trait) uint16 {
	return uint16(r.traits[t/lanes] >> (t % lanes * laneBits))
}

// low is a trait that is counted from the top.
func (r *row) low(t trait) int32 { return int32(top - r.get(t)) }

// raise raises a row to include more nodes, and reports whether it has changed.
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

// marks select parts of a row: a bit for each word of traits, for the share, and for the lowest number of its nodes.
type marks uint8

const (
	shareMark marks = 1 << (allTraits/lanes + iota)
	lowestMark
	allMarks = ^marks(0)
)

// best sets the marked parts to the best of other rows: word by word, so that the best so far is in a register. The size goes with the
// share: anySize for several sizes, or for a size other than the row's.
func (r *row) best(which marks, others []*row) {
	for i := range r.traits {
		if which>>i&1 == 0 {
			continue
		}
		most := uint64(0)
		for _, other := range others {
			most = lanesMost(other.traits[i], most)
		}
		r.traits[i] = most
	}
	if which&shareMark == 0 {
		return
	}
	r.share = noRow.share
	for _, other := range others {
		r.share = min(r.share, other.share)
		if other.size != r.size {
			r.size = anySize
		}
	}
}

// differs marks the differences of two rows.
func (r *row) differs(other *row) (where marks) {
	for i, word := range r.traits {
		if word != other.traits[i] {
			where |= 1 << i
		}
	}
	if r.share != other.share {
		where |= shareMark
	}
	return where
}

// A fall marks the figures of a node that have become worse, so that a row that includes the node can promise too much.
type fall struct {
	traits traits // the highest bit of each
	share  bool
	gone   bool // the node was removed
}

// fallOf returns the figures that are worse now.
func fallOf(before, now *row) (f fall) {
	for i, word := range now.traits {
		f.traits[i] = laneHighs &^ lanesAtLeast(word, before.traits[i])
	}
	f.share = now.share > before.share
	return f
}

// goneOf returns the fall of a removed node.
func goneOf(before *row) fall {
	f := fallOf(before, &noRow)
	f.share, f.gone = true, true
	return f
}

// hangsOn marks the figures of a row that depend on a node's figures from before its fall.
func (r *row) hangsOn(before *row, f *fall) (where marks) {
	for i, word := range before.traits {
		if lanesEqual(word, r.traits[i])&f.traits[i] != 0 {
			where |= 1 << i
		}
	}
	if f.share && before.share == r.share {
		where |= shareMark
	}
	return where
}
