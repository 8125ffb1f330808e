package fleet

import "math"

// A row holds the figures of a node from which bounds of its score are computed. The row of many nodes has the best of each figure. It has
// the size of a cache line, since most rows are in no CPU cache.
//
//	row of a block   = per figure, the best of its parts' rows
//	row of a node    = its own figures
//	loose            = the row can promise more than the nodes have, and is computed again on demand
type row struct {
	features features
	share    uint64 // free share (Fleet.shareOf), for orders that use it; less is better
	size     uint8  // index into Fleet.sizes; anySize where they differ
	kind     int32  // of a single node: index into Fleet.kinds
}

// worstRow is worse than the row of any node.
var worstRow = row{share: math.MaxUint64}

// get returns a trait.
func (r *row) get(t feature) uint16 {
	return uint16(r.features[t/lanes] >> (t % lanes * laneBits))
}

// getInverted is a trait that is counted from the top.
func (r *row) getInverted(t feature) int32 { return int32(maxFeature - r.get(t)) }

// include raises a row to include more nodes, and reports whether it has changed.
func (r *row) include(other *row) (changed bool) {
	for i, word := range other.features {
		if highest := lanesMax(word, r.features[i]); highest != r.features[i] {
			r.features[i], changed = highest, true
		}
	}
	if other.share < r.share {
		r.share, changed = other.share, true
	}
	if other.size != r.size && r.size != anySize {
		r.size, changed = anySize, true
	}
	return changed
}

// fieldSet select parts of a row: a bit for each word of traits, for the share, and for the lowest number of its nodes.
type fieldSet uint8

const (
	shareField fieldSet = 1 << (featureCount/lanes + iota)
	lowestField
	allFields = ^fieldSet(0)
)

// setBest sets the marked parts to the best of other rows: word by word, so that the best so far is in a register. The size goes with the
// share: anySize for several sizes, or for a size other than the row's.
func (r *row) setBest(fields fieldSet, others []*row) {
	for i := range r.features {
		if fields>>i&1 == 0 {
			continue
		}
		highest := uint64(0)
		for _, other := range others {
			highest = lanesMax(other.features[i], highest)
		}
		r.features[i] = highest
	}
	if fields&shareField == 0 {
		return
	}
	r.share = worstRow.share
	for _, other := range others {
		r.share = min(r.share, other.share)
		if other.size != r.size {
			r.size = anySize
		}
	}
}

// diff marks the differences of two rows.
func (r *row) diff(other *row) (fields fieldSet) {
	for i, word := range r.features {
		if word != other.features[i] {
			fields |= 1 << i
		}
	}
	if r.share != other.share {
		fields |= shareField
	}
	return fields
}

// A decline marks the figures of a node that have become worse, so that a row that includes the node can promise too much.
type decline struct {
	features  features // the highest bit of each
	share     bool
	isRemoved bool // the node was removed
}

// declineOf returns the figures that are worse now.
func declineOf(before, now *row) (f decline) {
	for i, word := range now.features {
		f.features[i] = laneHighs &^ lanesAtLeast(word, before.features[i])
	}
	f.share = now.share > before.share
	return f
}

// removalOf returns the fall of a removed node.
func removalOf(before *row) decline {
	f := declineOf(before, &worstRow)
	f.share, f.isRemoved = true, true
	return f
}

// dependsOn marks the figures of a row that depend on a node's figures from before its fall.
func (r *row) dependsOn(nodeBefore *row, f *decline) (fields fieldSet) {
	for i, word := range nodeBefore.features {
		if lanesEqual(word, r.features[i])&f.features[i] != 0 {
			fields |= 1 << i
		}
	}
	if f.share && nodeBefore.share == r.share {
		fields |= shareField
	}
	return fields
}
