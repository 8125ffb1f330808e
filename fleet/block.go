package fleet

import (
	"math/bits"
	"slices"
)

// blockSize is the most parts of a block: nodes, or smaller blocks.
const blockSize = 16

// A block is parts that stand together.
type block struct {
	rows   [blockSize]row
	keys   [blockSize]int64 // of nodes; no key in a smaller block is below its own, nor above the next one's
	lowest [blockSize]NodeID
	loose  [blockSize]uint32 // of a smaller block: figures that may be worse than they say
	count  int
	blocks *[blockSize]*block // nil: the parts are nodes
}

// A row is what a block keeps of a part: figures of a node, or the best of many. It is as large as a cache line,
// since of most nodes that come to another place nothing is in the caches.
type row struct {
	traits traits
	size   uint8  // index into Fleet.sizes; anySize where they differ
	share  uint64 // what is free in all (Fleet.shareOf); the best is the least
}

// Figures that are not traits, as bits beside those of the traits.
const (
	figureLowest = allTraits + iota // block.lowest
	figureShare                     // row.share
	figureSize                      // row.size
)

// position returns where in a block of nodes one is.
func (b *block) position(id NodeID) int {
	return slices.Index(b.lowest[:b.count], id)
}

// child returns which of its smaller blocks a key is in or belongs to.
func (b *block) child(key int64) int {
	low, high := 0, b.count
	for low < high {
		if middle := (low + high) / 2; b.keys[middle] <= key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return max(0, low-1)
}

// shift moves the parts of a block from one place on to another place.
func (b *block) shift(from, to int) {
	copy(b.keys[to:], b.keys[from:b.count])
	copy(b.lowest[to:], b.lowest[from:b.count])
	copy(b.rows[to:], b.rows[from:b.count])
	if b.blocks != nil {
		copy(b.blocks[to:], b.blocks[from:b.count])
		copy(b.loose[to:], b.loose[from:b.count])
	}
	b.count += to - from
}

// set makes a part of a block a node.
func (b *block) set(at int, it *item) {
	b.keys[at], b.lowest[at], b.rows[at] = it.key, it.id, it.row
}

// take takes a node out; the last one takes its place.
func (b *block) take(at int) {
	b.count--
	b.keys[at], b.lowest[at], b.rows[at] = b.keys[b.count], b.lowest[b.count], b.rows[b.count]
}

// moveTo moves the parts from one on to the end of another block.
func (b *block) moveTo(to *block, from int) {
	copy(to.keys[to.count:], b.keys[from:b.count])
	copy(to.lowest[to.count:], b.lowest[from:b.count])
	copy(to.rows[to.count:], b.rows[from:b.count])
	if b.blocks != nil {
		copy(to.blocks[to.count:], b.blocks[from:b.count])
		copy(to.loose[to.count:], b.loose[from:b.count])
		clear(b.blocks[from:b.count])
	}
	to.count += b.count - from
	b.count = from
}

// tighten counts anew what may be loose of what a block keeps of a part.
func (b *block) tighten(at int) {
	part, loose := b.blocks[at], b.loose[at]
	b.loose[at] = 0
	if part.blocks != nil {
		for i := range part.count {
			if part.loose[i]&loose != 0 {
				part.tighten(i)
			}
		}
	}
	rows := part.rows[:max(1, part.count)]
	if loose&(1<<figureLowest) != 0 {
		b.lowest[at] = slices.Min(part.lowest[:len(rows)])
	}
	if loose&(1<<figureShare) != 0 {
		b.rows[at].share = rows[0].share
		for i := range rows {
			b.rows[at].share = min(b.rows[at].share, rows[i].share)
		}
	}
	for loose &= 1<<allTraits - 1; loose != 0; loose &= loose - 1 {
		t, most := bits.TrailingZeros32(loose), uint16(0)
		for i := range rows {
			most = max(most, rows[i].traits[t])
		}
		b.rows[at].traits[t] = most
	}
}

// raise makes what a block keeps of a part tell of a node in it, of which some figures may be better than
// that. It returns those that were.
func (b *block) raise(at int, it *item, better uint32) (raised uint32) {
	if better == 0 {
		return 0
	}
	r := &b.rows[at]
	for t, v := range it.row.traits {
		if v > r.traits[t] {
			r.traits[t] = v
			raised |= 1 << t
		}
	}
	if it.id < b.lowest[at] {
		b.lowest[at] = it.id
		raised |= 1 << figureLowest
	}
	if it.row.share < r.share {
		r.share = it.row.share
		raised |= 1 << figureShare
	}
	if it.row.size != r.size {
		r.size = anySize
		raised |= 1 << figureSize
	}
	return raised
}

// lose notes which figures of a part may be worse, now that some of a node in it are, and returns them.
func (b *block) lose(at int, before *item, worse uint32) (lost uint32) {
	if worse == 0 {
		return 0
	}
	r := &b.rows[at]
	for t, v := range before.row.traits {
		if v == r.traits[t] && v > 0 {
			lost |= 1 << t
		}
	}
	if before.id == b.lowest[at] {
		lost |= 1 << figureLowest
	}
	if before.row.share == r.share {
		lost |= 1 << figureShare
	}
	lost &= worse
	b.loose[at] |= lost
	return lost
}
