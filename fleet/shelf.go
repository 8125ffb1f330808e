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
	key int64
	id  NodeID
	row row
}

// idBits are those of a node's number in its key: so all keys differ.
const idBits = 20

// A change is how a node or a part is other than it was: a bit for each figure.
type change struct{ worse, better uint32 }

// changeOf returns how a row differs from what it was.
func changeOf(before, now *row) (c change) {
	for t, was := range before.traits {
		switch is := now.traits[t]; {
		case is < was:
			c.worse |= 1 << t
		case is > was:
			c.better |= 1 << t
		}
	}
	switch {
	case now.share > before.share:
		c.worse |= 1 << figureShare
	case now.share < before.share:
		c.better |= 1 << figureShare
	}
	return c
}

// insert puts a node on a shelf.
func (s *shelf) insert(it *item) {
	if s.top == nil {
		s.top = &block{count: 1, blocks: &[blockSize]*block{new(block)}}
		s.top.lowest[0], s.top.rows[0].share = MaxNodes, math.MaxUint64
	}
	s.makeRoom()
	s.insertInto(s.top, it)
}

// makeRoom sees to it that the block of all nodes is not full.
func (s *shelf) makeRoom() {
	if s.top.blocks[0].count == blockSize {
		root := &block{count: 1, blocks: &[blockSize]*block{s.top.blocks[0]}}
		root.keys[0] = math.MinInt64
		s.split(root, 0)
		s.top.blocks[0] = root
	}
}

// insertInto puts a node into a block that is not full, and returns what may be better of that for it.
func (s *shelf) insertInto(b *block, it *item) (better uint32) {
	if b.blocks == nil {
		b.set(b.count, it)
		b.count++
		return s.all()
	}
	at := b.child(it.key)
	if b.blocks[at].count == blockSize {
		s.split(b, at)
		at = b.child(it.key)
	}
	return b.raise(at, it, s.insertInto(b.blocks[at], it))
}

// all are the figures that may become worse or better.
func (s *shelf) all() uint32 {
	return 1<<s.traits - 1 | 1<<figureLowest | 1<<figureShare | 1<<figureSize
}

// split makes two blocks of a full one within a block that is not full.
func (s *shelf) split(b *block, at int) {
	lower, upper := b.blocks[at], new(block)
	key := lower.keys[blockSize/2]
	if lower.blocks != nil {
		upper.blocks = new([blockSize]*block)
		lower.moveTo(upper, blockSize/2)
	} else {
		key = lower.part(upper)
	}
	b.shift(at+1, at+2)
	b.keys[at+1], b.blocks[at+1] = key, upper
	s.count(b, at)
	s.count(b, at+1)
}

// part moves the upper half of a block of nodes to an empty one, and returns its lowest key.
func (b *block) part(upper *block) int64 {
	keys := b.keys
	slices.Sort(keys[:b.count])
	key := keys[b.count/2]
	for i := b.count - 1; i >= 0; i-- {
		if b.keys[i] >= key {
			upper.set(upper.count, &item{b.keys[i], b.lowest[i], b.rows[i]})
			upper.count++
			b.take(i)
		}
	}
	return key
}

// count counts anew what a block keeps of a part.
func (s *shelf) count(b *block, at int) {
	part := b.blocks[at]
	size := part.rows[0].size
	for i := range part.count {
		if part.rows[i].size != size {
			size = anySize
		}
	}
	b.rows[at].size = size
	b.loose[at] = s.all()
	b.tighten(at)
}

// remove takes a node off a shelf.
func (s *shelf) remove(it *item) {
	s.removeFrom(s.top, it, s.all())
	s.dropEmpty()
}

// dropEmpty takes away what need not be there when a node has left its block.
func (s *shelf) dropEmpty() {
	if root := s.top.blocks[0]; root.blocks != nil && root.count == 1 {
		s.top.blocks[0] = root.blocks[0]
	}
	if s.top.blocks[0].count == 0 {
		s.top = nil
	}
}

// removeFrom takes a node out of a block, and returns which figures may be worse of that for it.
func (s *shelf) removeFrom(b *block, it *item, worse uint32) uint32 {
	if b.blocks == nil {
		b.take(b.position(it.id))
		return worse
	}
	at := b.child(it.key)
	below := b.blocks[at]
	worse = b.lose(at, it, s.removeFrom(below, it, worse))
	if below.count < blockSize/4 && b != s.top {
		s.merge(b, at)
	}
	return worse
}

// merge puts a small block together with the one beside it, if that leaves room to grow.
func (s *shelf) merge(b *block, at int) {
	at = min(at, b.count-2)
	if at < 0 || b.blocks[at].count+b.blocks[at+1].count > blockSize*3/4 && b.blocks[at].count*b.blocks[at+1].count > 0 {
		return
	}
	b.blocks[at+1].moveTo(b.blocks[at], 0)
	b.shift(at+2, at+1)
	b.blocks[b.count] = nil
	s.count(b, at)
}

// move gives a node on a shelf another key and other figures.
func (s *shelf) move(before, now *item, c change) {
	s.makeRoom()
	s.moveIn(s.top, before, now, change{c.worse & s.all(), c.better & s.all()})
	s.dropEmpty()
}

// moveIn is move within a block that is not full. It returns how that has changed.
func (s *shelf) moveIn(b *block, before, now *item, c change) change {
	if b.blocks == nil {
		b.set(b.position(now.id), now)
		return c
	}
	from, to := b.child(before.key), b.child(now.key)
	if below := b.blocks[to]; from == to && below.blocks != nil && below.count == blockSize {
		s.split(b, to)
		from, to = b.child(before.key), b.child(now.key)
	}
	if from != to {
		c.worse &= s.removeFrom(b, before, s.all())
		c.better = s.insertInto(b, now)
		return c
	}
	c = s.moveIn(b.blocks[to], before, now, c)
	return change{b.lose(to, before, c.worse), b.raise(to, now, c.better)}
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
