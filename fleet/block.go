package fleet

import (
	"math/bits"
	"slices"
)

// blockSize is the most parts of a block: nodes, or smaller blocks.
const blockSize = 16

// A block is parts that stand together. What it keeps of them stands in columns, since
// whoever looks for a node reads few traits of many parts.
type block struct {
	count  int
	keys   [blockSize]int64 // of nodes; no key in a smaller block is below its own, nor above the next one's
	lowest [blockSize]NodeID
	shares [blockSize]uint64 // what is free in all (Fleet.shareOf); the best, which is the least
	traits [allTraits][blockSize]uint16
	sizes  [blockSize]uint8   // index into Fleet.sizes; anySize where they differ
	blocks *[blockSize]*block // nil: the parts are nodes
	loose  [blockSize]uint32  // of a smaller block: traits that may be less than they say; looseLowest, looseShare
}

// These stand for block.lowest and block.shares among the loose traits.
const (
	looseLowest = allTraits + iota
	looseShare
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
func (b *block) shift(from, to int, traits trait) {
	copy(b.keys[to:], b.keys[from:b.count])
	copy(b.lowest[to:], b.lowest[from:b.count])
	copy(b.sizes[to:], b.sizes[from:b.count])
	copy(b.shares[to:], b.shares[from:b.count])
	for t := range traits {
		copy(b.traits[t][to:], b.traits[t][from:b.count])
	}
	if b.blocks != nil {
		copy(b.blocks[to:], b.blocks[from:b.count])
		copy(b.loose[to:], b.loose[from:b.count])
	}
	b.count += to - from
}

// take moves a node to the end of another block, if there is one; the last one takes its place.
func (b *block) take(to *block, at int, traits trait) {
	last := b.count - 1
	if to != nil {
		n := to.count
		to.keys[n], to.lowest[n], to.sizes[n], to.shares[n] = b.keys[at], b.lowest[at], b.sizes[at], b.shares[at]
		for t := range traits {
			to.traits[t][to.count] = b.traits[t][at]
		}
		to.count++
	}
	b.keys[at], b.lowest[at], b.sizes[at], b.shares[at] = b.keys[last], b.lowest[last], b.sizes[last], b.shares[last]
	for t := range traits {
		b.traits[t][at] = b.traits[t][last]
	}
	b.count--
}

// moveTo moves the parts from one on to the end of another block.
func (b *block) moveTo(to *block, from int, traits trait) {
	copy(to.keys[to.count:], b.keys[from:b.count])
	copy(to.lowest[to.count:], b.lowest[from:b.count])
	copy(to.sizes[to.count:], b.sizes[from:b.count])
	copy(to.shares[to.count:], b.shares[from:b.count])
	for t := range traits {
		copy(to.traits[t][to.count:], b.traits[t][from:b.count])
	}
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
	if loose&(1<<looseLowest) != 0 {
		loose &^= 1 << looseLowest
		b.lowest[at] = slices.Min(part.lowest[:max(1, part.count)])
	}
	if loose&(1<<looseShare) != 0 {
		loose &^= 1 << looseShare
		b.shares[at] = slices.Min(part.shares[:max(1, part.count)])
	}
	for ; loose != 0; loose &= loose - 1 {
		t := bits.TrailingZeros32(loose)
		most := uint16(0)
		for _, v := range part.traits[t][:part.count] {
			most = max(most, v)
		}
		b.traits[t][at] = most
	}
}

// lost returns which of a part's traits may be less than they were, now that some of a node are less.
func (b *block) lost(at int, before item, less uint32) (lost uint32) {
	if less&(1<<looseLowest) != 0 && b.lowest[at] == before.id {
		lost |= 1 << looseLowest
	}
	if less&(1<<looseShare) != 0 && b.shares[at] == before.share {
		lost |= 1 << looseShare
	}
	for less &= 1<<allTraits - 1; less != 0; less &= less - 1 {
		if t := bits.TrailingZeros32(less); b.traits[t][at] == before.traits[t] {
			lost |= 1 << t
		}
	}
	return lost
}
