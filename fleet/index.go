package fleet

import (
	"math"

	"github.com/candor-project/candor/hybrid"
)

// refresh brings the index up to date with a node.
func (f *Fleet) refresh(id NodeID) {
	n, s := &f.nodes[id], &f.summaries[id]
	f.note(id, false)
	n.Summarize(s)
	figures := s.Figures()
	f.countShares(id)
	n.refusals = 0
	before, now := item{id: id, row: f.rows[id]}, item{id: id, row: f.rowOf(id, &figures)}
	fall := fallOf(&before.row, &now.row)
	for class, shelves := 0, f.shelvesOf(); class < len(shelves); class++ {
		before.key, now.key = n.keys[class], f.key(id, hybrid.Class(class), &figures)<<idBits|int64(id)
		if n.shelved {
			shelves[class].move(&before, &now, &fall)
		} else {
			shelves[class].insert(&now)
		}
		n.keys[class] = now.key
	}
	n.shelved, f.rows[id] = true, now.row
}

// rowOf returns the row of a node.
func (f *Fleet) rowOf(id NodeID, g *hybrid.Figures) row {
	kind := f.nodes[id].kind
	r := row{traits: f.traitsOf(id, g), size: f.kinds[kind].size, kind: kind}
	if f.options.Order != Candor {
		r.share = f.shareOf(id)
	}
	return r
}

// unshelve takes a node out of the index.
func (f *Fleet) unshelve(id NodeID) {
	n := &f.nodes[id]
	shelves := f.shelvesOf()
	for class := range shelves {
		shelves[class].remove(&item{n.keys[class], id, f.rows[id]})
	}
}

// oneShelf reports whether both classes use the same shelf.
func (f *Fleet) oneShelf() bool { return f.options.Order != Paper }

// byShare reports whether the free share decides for a class.
func (f *Fleet) byShare(class hybrid.Class) bool {
	return f.options.Order == Least || f.options.Order == Most || f.options.Order == Paper && class == hybrid.Flexible
}

// keyBits are those of Fleet.key.
const keyBits = 63 - idBits

// sizeOfKey returns the number of the size of a node by its key on a shelf; 0 where the size does not matter.
func sizeOfKey(key int64) int { return int(key >> (idBits + keyBits - sizeBits)) }

// key returns the key of a node on the shelf of a class: nodes that are alike for containers have near keys.
func (f *Fleet) key(id NodeID, class hybrid.Class, g *hybrid.Figures) int64 {
	switch paper := f.options.Order == Paper && !f.byShare(class); { // the size does not matter to that
	case paper && f.byPaper():
		return int64(flag(g.HasFlexible))<<12 | int64(min(g.SharedCPUs, 2))
	case paper && g.SpareCPUs > 0: // of the nodes without sharing, the lowest number is the best
		return 1<<34 | int64(min(g.SpareCPUs, 15))
	case paper:
		return mix(g.MaxSharedRoom>>4, g.NextLent>>4)
	}
	return int64(f.kinds[f.nodes[id].kind].size)<<(keyBits-sizeBits) | f.keyWithin(id, g)
}

// keyWithin is the key among the nodes of a size.
func (f *Fleet) keyWithin(id NodeID, g *hybrid.Figures) int64 {
	free, full := uint16(max(0, g.Free[hybrid.Flexible])>>7), f.scarcest(id)
	switch {
	case f.options.Order == Most: // the best have little free
		return mix(logTime(g.Free[hybrid.Flexible]), full)
	case f.options.Order != Candor:
		return mix(free, full)
	case g.MaxUnlentGuarantee >= 60: // usually no time is lent
		return 1<<34 | int64(flag(g.PaperFirstLent > 0))<<12 | mix(rootShare(f.sharesOf(id)[0]), full)
	default:
		return mix(uint16(g.MaxUnlentGuarantee+1)>>5, g.NextLent>>4, free, full)
	}
}

// mix interleaves the bits of several figures below 64 (higher figures count as 63), so that nodes that are alike in all figures have near
// keys (a Z-order curve).
func mix(figures ...uint16) int64 {
	var mixed int64
	for _, figure := range figures {
		mixed = mixed<<1 | spreads[len(figures)][min(figure, 63)]
	}
	return mixed
}

// spreads are the figures below 64 with gaps between their bits, by the number of figures to interleave.
var spreads = newSpreads()

func newSpreads() (s [5][64]int64) {
	for count := range s {
		for figure := range s[count] {
			for bit := range 6 {
				s[count][figure] |= int64(figure>>bit&1) << (bit * count)
			}
		}
	}
	return s
}

// scarcest returns the free share of a node's scarcest further resource, in 64ths.
func (f *Fleet) scarcest(id NodeID) uint16 {
	least := int32(wholeShare)
	for i, share := range f.sharesOf(id)[1:] {
		if f.kinds[f.nodes[id].kind].scale[1+i] > 0 {
			least = min(least, share)
		}
	}
	return uint16(least >> 10)
}

// logTime is the logarithm of a time, below 64.
func logTime(milli int32) uint16 { return uint16(max(16, quarters(int64(milli))) - 16) }

// rootShare returns the root of a share, below 64: it distinguishes small shares better.
func rootShare(share int32) uint16 { return uint16(math.Sqrt(float64(share)) / 4.01) }
