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

// marks say which of a row: a bit for each word of traits, for the share, and for the lowest number of its nodes.
type marks uint8

const (
	shareMark marks = 1 << (allTraits/lanes + iota)
	lowestMark
	allMarks = ^marks(0)
)

// best makes what is marked that of some others together: word by word, so that the best so far is in a register. With
// the share goes the size: anySize if they are of several, or of another than it is.
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

// differs marks in what two rows differ.
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

// hangsOn marks in what a row would promise less without what a node was before its fall.
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
