package fleet

import "math"

// A row holds the values from which bounds on the scores of a node, or of all nodes below a block, are computed. A row has the size of a
// cache line, because most rows are not in a CPU cache when a search reads them.
//
//	row of a node  = the values of the node
//	row of a block = for each value, the best value among the rows of the block's children
//
// A row is loose if it may contain a value that is better than the values of all nodes below the block, because a node has become worse
// since. A search recomputes a loose row when it reaches the block.
type row struct {
	features features
	share    uint64 // Fleet.shareForOrder, 0 in the order Candor; a lower value is better
	size     uint8  // index of the nodes' size in Fleet.sizes; anySize if the nodes have several sizes
	kind     int32  // index of a node's kind in Fleet.kinds; unused in the row of a block
}

// worstRow is worse than the row of any node.
var worstRow = row{share: math.MaxUint64}

// get returns a feature.
func (r *row) get(t feature) uint16 {
	return uint16(r.features[t/lanes] >> (t % lanes * laneBits))
}

// getInverted returns the original figure of a feature that is stored inverted.
func (r *row) getInverted(t feature) int32 { return int32(maxFeature - r.get(t)) }

// include replaces values of the row by the better values of another row, and reports whether the row has changed.
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

// A fieldSet is a set of fields of a row: a bit for each word of row.features and a bit for row.share. A further bit stands for
// block.lowest, which is recomputed together with the row.
type fieldSet uint8

const (
	shareField fieldSet = 1 << (featureCount/lanes + iota)
	lowestField
	allFields = ^fieldSet(0)
)

// setBest sets the selected fields to the best values of the other rows. The outer loop runs over the words of a row, so that the best
// value of a word stays in a register. If the share is selected, setBest also sets the size to anySize if another row has a different size.
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

// diff returns the fields in which two rows differ.
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

// A decline is the set of values of a node's row that have become worse. The rows of the blocks above the node may be loose in these values.
type decline struct {
	features  features // for each feature that has become worse, the highest bit of its lane
	share     bool
	isRemoved bool // the node was removed
}

// declineOf compares the rows of a node before and after a change, and returns the values that have become worse.
func declineOf(before, now *row) (d decline) {
	for i, word := range now.features {
		d.features[i] = laneHighs &^ lanesAtLeast(word, before.features[i])
	}
	d.share = now.share > before.share
	return d
}

// removalOf returns the decline of a node that leaves its block or the index: all values count as worse.
func removalOf(before *row) decline {
	d := declineOf(before, &worstRow)
	d.share, d.isRemoved = true, true
	return d
}

// dependsOn returns the fields of a block's row that may be loose after the decline of a node below the block. These are the fields in which
// the row has the value that the node had before the decline.
func (r *row) dependsOn(nodeBefore *row, d *decline) (fields fieldSet) {
	for i, word := range nodeBefore.features {
		if lanesEqual(word, r.features[i])&d.features[i] != 0 {
			fields |= 1 << i
		}
	}
	if d.share && nodeBefore.share == r.share {
		fields |= shareField
	}
	return fields
}
