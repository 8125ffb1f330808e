package fleet

import (
	"math"
	"math/bits"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// All nodes stand on a shelf, those that are alike for the fleet's order
// beside each other: in blocks by a key, without order within a block; and blocks stand together in larger
// ones, in the order of their keys (it is a B+ tree). Of each part of a block the block keeps the traits, so
// that most parts need not be looked at.

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

// A shelf is all nodes.
type shelf struct {
	top    *block // has the block of all nodes as its only part; nil: no node
	traits trait  // how many are kept
}

// An item is a node on a shelf.
type item struct {
	key    int64
	id     NodeID
	size   uint8 // index into Fleet.sizes
	share  uint64
	traits *traits
}

// idBits are those of a node's number in its key: so all keys differ.
const idBits = 20

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

// insert puts a node on a shelf.
func (s *shelf) insert(it item) {
	if s.top == nil {
		s.top = &block{count: 1, blocks: &[blockSize]*block{new(block)}}
		s.top.lowest[0], s.top.shares[0] = MaxNodes, math.MaxUint64
	}
	if s.top.blocks[0].count == blockSize {
		root := &block{count: 1, blocks: &[blockSize]*block{s.top.blocks[0]}}
		root.keys[0] = math.MinInt64
		s.split(root, 0)
		s.top.blocks[0] = root
	}
	b := s.top
	for b.blocks != nil {
		at := b.child(it.key)
		if b.blocks[at].count == blockSize {
			s.split(b, at)
			at = b.child(it.key)
		}
		s.include(b, at, it)
		b = b.blocks[at]
	}
	i := b.count
	b.count++
	b.keys[i], b.lowest[i], b.sizes[i], b.shares[i] = it.key, it.id, it.size, it.share
	for t := range s.traits {
		b.traits[t][i] = it.traits[t]
	}
}

// include makes what a block keeps of a part tell of one more node in it.
func (s *shelf) include(b *block, at int, it item) {
	b.lowest[at], b.shares[at] = min(b.lowest[at], it.id), min(b.shares[at], it.share)
	if b.sizes[at] != it.size {
		b.sizes[at] = anySize
	}
	for t := range s.traits {
		b.traits[t][at] = max(b.traits[t][at], it.traits[t])
	}
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

// split makes two blocks of a full one within a block that is not full.
func (s *shelf) split(b *block, at int) {
	lower, upper := b.blocks[at], new(block)
	key := lower.keys[blockSize/2]
	if lower.blocks != nil {
		upper.blocks = new([blockSize]*block)
		lower.moveTo(upper, blockSize/2, s.traits)
	} else {
		key = s.part(lower, upper)
	}
	b.shift(at+1, at+2, s.traits)
	b.keys[at+1], b.blocks[at+1] = key, upper
	s.count(b, at)
	s.count(b, at+1)
}

// part moves the upper half of a block of nodes to an empty one, and returns its lowest key.
func (s *shelf) part(lower, upper *block) int64 {
	keys := lower.keys
	slices.Sort(keys[:lower.count])
	key := keys[lower.count/2]
	for i := lower.count - 1; i >= 0; i-- {
		if lower.keys[i] >= key {
			lower.take(upper, i, s.traits)
		}
	}
	return key
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

// count counts anew what a block keeps of a part.
func (s *shelf) count(b *block, at int) {
	part := b.blocks[at]
	b.sizes[at] = part.sizes[0]
	for _, size := range part.sizes[:part.count] {
		if size != b.sizes[at] {
			b.sizes[at] = anySize
		}
	}
	b.loose[at] = 1<<s.traits - 1 | 1<<looseLowest | 1<<looseShare
	b.tighten(at)
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

// remove takes a node off a shelf. The item has the traits that are on the shelf.
func (s *shelf) remove(it item) {
	s.removeFrom(s.top, it, s.less(it, item{traits: &traits{}, share: math.MaxUint64})|1<<looseLowest)
	if root := s.top.blocks[0]; root.blocks != nil && root.count == 1 {
		s.top.blocks[0] = root.blocks[0]
	}
	if s.top.blocks[0].count == 0 {
		s.top = nil
	}
}

// removeFrom takes a node out of a block.
func (s *shelf) removeFrom(b *block, it item, less uint32) {
	if b.blocks == nil {
		b.take(nil, b.position(it.id), s.traits)
		return
	}
	at := b.child(it.key)
	below := b.blocks[at]
	s.removeFrom(below, it, less)
	b.loose[at] |= b.lost(at, it, less)
	if below.count < blockSize/4 && b != s.top {
		s.merge(b, at)
	}
}

// less returns which traits of a node are less than they were, as loose traits.
func (s *shelf) less(before, now item) (less uint32) {
	for t := range s.traits {
		if now.traits[t] < before.traits[t] {
			less |= 1 << t
		}
	}
	if now.share > before.share {
		less |= 1 << looseShare
	}
	return less
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

// merge puts a small block together with the one beside it, if that leaves room to grow.
func (s *shelf) merge(b *block, at int) {
	at = min(at, b.count-2)
	if at < 0 || b.blocks[at].count+b.blocks[at+1].count > blockSize*3/4 && b.blocks[at].count*b.blocks[at+1].count > 0 {
		return
	}
	b.blocks[at+1].moveTo(b.blocks[at], 0, s.traits)
	b.shift(at+2, at+1, s.traits)
	b.blocks[b.count] = nil
	s.count(b, at)
}

// touch gives a node that stays where it is other traits.
func (s *shelf) touch(before, now item) {
	b, less := s.top, s.less(before, now)
	for b.blocks != nil {
		at := b.child(now.key)
		b.loose[at] |= b.lost(at, before, less)
		s.include(b, at, now)
		b = b.blocks[at]
	}
	at := b.position(now.id)
	b.shares[at] = now.share
	for t := range s.traits {
		b.traits[t][at] = now.traits[t]
	}
}

// shelvesOf returns the shelves, by class, or the one for both.
func (f *Fleet) shelvesOf() []shelf {
	if f.oneShelf() {
		return f.shelves[:1]
	}
	return f.shelves[:]
}

// shelfFor returns the shelf from which containers of a class are placed.
func (f *Fleet) shelfFor(class hybrid.Class) *shelf {
	shelves := f.shelvesOf()
	return &shelves[min(int(class), len(shelves)-1)]
}
