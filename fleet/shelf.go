package fleet

import (
	"math"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// All nodes stand on a shelf, those that are alike for the fleet's order
// beside each other: in blocks by a key, without order within a block; and blocks stand together in larger
// ones, in the order of their keys (it is a B+ tree). Of each part of a block the block keeps the traits, so
// that most parts need not be looked at.

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
