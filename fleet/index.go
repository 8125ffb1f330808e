package fleet

import (
	"math"

	"github.com/candor-project/candor/hybrid"
)

// refresh recomputes all values that depend on a node after the node has changed, and moves the node in the indexes.
func (f *Fleet) refresh(id NodeID) {
	n, s := &f.nodes[id], &f.summaries[id]
	f.recordChange(id, false)
	n.Summarize(s)
	figures := s.Figures()
	f.updateShares(id)
	n.refusals = 0
	before, now := entry{id: id, row: f.rows[id]}, entry{id: id, row: f.rowOf(id, &figures)}
	decline := declineOf(&before.row, &now.row)
	for class, indexes := 0, f.activeIndexes(); class < len(indexes); class++ {
		before.key, now.key = n.keys[class], f.key(id, hybrid.Class(class), &figures)<<idBits|int64(id)
		if n.isIndexed {
			indexes[class].move(&before, &now, &decline)
		} else {
			indexes[class].insert(&now)
		}
		n.keys[class] = now.key
	}
	n.isIndexed, f.rows[id] = true, now.row
}

// rowOf computes the row of a node.
func (f *Fleet) rowOf(id NodeID, g *hybrid.Figures) row {
	kind := f.nodes[id].kind
	r := row{features: f.featuresOf(id, g), size: f.kinds[kind].size, kind: kind}
	if f.options.Order != Candor {
		r.share = f.shareForOrder(id)
	}
	return r
}

// removeFromIndex removes a node from the indexes.
func (f *Fleet) removeFromIndex(id NodeID) {
	n := &f.nodes[id]
	indexes := f.activeIndexes()
	for class := range indexes {
		indexes[class].remove(&entry{n.keys[class], id, f.rows[id]})
	}
}

// hasSingleIndex reports whether both classes use the same index.
func (f *Fleet) hasSingleIndex() bool { return f.options.Order != Paper }

// byFreeShare reports whether Options.Order ranks the nodes by their free share when the container has this class.
func (f *Fleet) byFreeShare(class hybrid.Class) bool {
	return f.options.Order == Least || f.options.Order == Most || f.options.Order == Paper && class == hybrid.Flexible
}

// keyBits is the number of bits of Fleet.key. The NodeID in the lowest bits is not included.
const keyBits = 63 - idBits

// sizeOfKey returns the size from a complete key: the result of Fleet.key, followed by the NodeID. It returns 0 if the key does not contain
// the size.
func sizeOfKey(key int64) int { return int(key >> (idBits + keyBits - sizeBits)) }

// key returns the key of a node in the index of a class, without the NodeID. Nodes with similar scores have keys close to each other.
func (f *Fleet) key(id NodeID, class hybrid.Class, g *hybrid.Figures) int64 {
	// If paper is true, the score does not depend on the node's size.
	switch paper := f.options.Order == Paper && !f.byFreeShare(class); {
	case paper && f.usesPaper():
		return int64(flag(g.HasFlexible))<<12 | int64(min(g.SharedCPUs, 2))
	case paper && g.SpareCPUs > 0: // no time becomes shared on these nodes, so they have equal scores
		return 1<<34 | int64(min(g.SpareCPUs, 15))
	case paper:
		return interleave(g.MaxSharedRoom>>4, g.NextLent>>4)
	}
	return int64(f.kinds[f.nodes[id].kind].size)<<(keyBits-sizeBits) | f.keyInSize(id, g)
}

// keyInSize returns the part of the key after the size.
func (f *Fleet) keyInSize(id NodeID, g *hybrid.Figures) int64 {
	free, full := uint16(max(0, g.Free[hybrid.Flexible])>>7), f.scarcestShare(id)
	switch {
	case f.options.Order == Most: // the best nodes have little free time; the logarithm distinguishes small times well
		return interleave(logTime(g.Free[hybrid.Flexible]), full)
	case f.options.Order != Candor:
		return interleave(free, full)
	case g.MaxUnlentGuarantee >= 60: // on such a node, most containers add no lent time
		return 1<<34 | int64(flag(g.PaperFirstLent > 0))<<12 | interleave(rootShare(f.sharesOf(id)[0]), full)
	default:
		return interleave(uint16(g.MaxUnlentGuarantee+1)>>5, g.NextLent>>4, free, full)
	}
}

// interleave interleaves the bits of several figures (a Z-order curve), so that nodes that are similar in all figures have keys close to
// each other. A figure above 63 counts as 63.
func interleave(figures ...uint16) int64 {
	var mixed int64
	for _, figure := range figures {
		mixed = mixed<<1 | bitSpreads[len(figures)][min(figure, 63)]
	}
	return mixed
}

// bitSpreads holds, for each number of figures to interleave and each figure below 64, the figure with gaps between its bits.
var bitSpreads = newBitSpreads()

func newBitSpreads() (s [5][64]int64) {
	for count := range s {
		for figure := range s[count] {
			for bit := range 6 {
				s[count][figure] |= int64(figure>>bit&1) << (bit * count)
			}
		}
	}
	return s
}

// scarcestShare returns the lowest free share among a node's further resources, in 64ths.
func (f *Fleet) scarcestShare(id NodeID) uint16 {
	lowest := int32(wholeShare)
	for i, share := range f.sharesOf(id)[1:] {
		if f.kinds[f.nodes[id].kind].scale[1+i] > 0 {
			lowest = min(lowest, share)
		}
	}
	return uint16(lowest >> 10)
}

// logTime returns the logarithm of a CPU time in quarters of an octave, in the range 0 to 63.
func logTime(milli int32) uint16 { return uint16(max(16, quarterOctaves(int64(milli))) - 16) }

// rootShare returns the square root of a share, scaled to the range 0 to 63. The root distinguishes small shares better.
func rootShare(share int32) uint16 { return uint16(math.Sqrt(float64(share)) / 4.01) }
