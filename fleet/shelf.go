package fleet

import "github.com/candor-project/candor/hybrid"

// The nodes of one kind stand on a shelf, those that are alike for the fleet's order
// beside each other: sorted by a key, then by number, in blocks; and blocks stand together
// in larger ones (it is a B+ tree). A cover says of each block the best that any of its nodes could
// be, so that most blocks need not be opened.

// blockSize is the most parts of a block: nodes, or smaller blocks.
const blockSize = 16

// An item is a node on a shelf.
type item struct {
	key  int64
	id   NodeID
	free int32 // time that flexible containers can still be guaranteed; no container may have more
}

func (a item) before(b item) bool { return a.key < b.key || a.key == b.key && a.id < b.id }

// A block is parts that stand together.
type block struct {
	count int
	items [blockSize]item // nodes, or the first ones of the smaller blocks
	inner *inner          // nil: the parts are nodes
}

// inner is what a block of blocks has besides.
type inner struct {
	blocks [blockSize]*block
	covers [blockSize]cover
}

// coverShares is of how many resources a cover tells; CPU is the first.
const coverShares = 3

// A cover says what the nodes of a block have at most or at least. After a node has left it
// may say more than there is; then it is loose.
type cover struct {
	hybrid.Figures
	most, least [coverShares]int32 // free shares
	share       int64              // the best (Fleet.share)
	kind        *kind
	lowest      NodeID
	loose       bool
}

// A shelf is the nodes of one kind.
type shelf struct {
	root  *block // nil: no node yet
	cover cover  // of all of it
}

// position returns where in a block an item is or belongs.
func (b *block) position(it item) int {
	low, high := 0, b.count
	for low < high {
		middle := (low + high) / 2
		if b.items[middle].before(it) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// child returns which of its smaller blocks an item is in or belongs to.
func (b *block) child(it item) int {
	at := b.position(it)
	if at < b.count && b.items[at].id == it.id {
		return at
	}
	return max(0, at-1)
}

// insert puts a node on a shelf.
func (f *Fleet) insert(s *shelf, it item) {
	if s.root == nil {
		s.root = new(block)
	}
	if s.root.count == blockSize {
		lower := s.root
		s.root = &block{count: 1, inner: &inner{}}
		s.root.items[0], s.root.inner.blocks[0] = lower.items[0], lower
		f.split(s.root, 0)
	}
	if s.root.count == 0 {
		s.cover = f.emptyCover(it.id)
	}
	f.include(&s.cover, it.id)
	b := s.root
	for b.inner != nil {
		at := b.child(it)
		if b.inner.blocks[at].count == blockSize {
			f.split(b, at)
			at = b.child(it)
		}
		if it.before(b.items[at]) {
			b.items[at] = it
		}
		f.include(&b.inner.covers[at], it.id)
		b = b.inner.blocks[at]
	}
	i := b.position(it)
	copy(b.items[i+1:b.count+1], b.items[i:b.count])
	b.items[i] = it
	b.count++
}

// split makes two blocks of a full one within a block that is not full.
func (f *Fleet) split(b *block, at int) {
	lower, upper := b.inner.blocks[at], new(block)
	if lower.inner != nil {
		upper.inner = new(inner)
	}
	lower.moveTo(upper, blockSize/2)
	copy(b.items[at+2:b.count+1], b.items[at+1:b.count])
	copy(b.inner.blocks[at+2:b.count+1], b.inner.blocks[at+1:b.count])
	copy(b.inner.covers[at+2:b.count+1], b.inner.covers[at+1:b.count])
	b.items[at+1], b.inner.blocks[at+1] = upper.items[0], upper
	b.count++
	b.inner.covers[at], b.inner.covers[at+1] = f.coverOf(lower), f.coverOf(upper)
}

// moveTo moves the parts from one on to the end of another block.
func (b *block) moveTo(to *block, from int) {
	copy(to.items[to.count:], b.items[from:b.count])
	if b.inner != nil {
		copy(to.inner.blocks[to.count:], b.inner.blocks[from:b.count])
		copy(to.inner.covers[to.count:], b.inner.covers[from:b.count])
		clear(b.inner.blocks[from:b.count])
	}
	to.count += b.count - from
	b.count = from
}

// remove takes a node off a shelf.
func (f *Fleet) remove(s *shelf, it item) {
	s.cover.loose = true
	f.removeFrom(s.root, it)
	if s.root.inner != nil && s.root.count == 1 {
		s.root = s.root.inner.blocks[0]
	}
}

func (f *Fleet) removeFrom(b *block, it item) {
	if b.inner == nil {
		b.drop(b.position(it))
		return
	}
	at := b.child(it)
	below := b.inner.blocks[at]
	b.inner.covers[at].loose = true
	f.removeFrom(below, it)
	if below.count == 0 {
		b.drop(at)
		return
	}
	b.items[at] = below.items[0]
	if below.count < blockSize/4 {
		f.merge(b, at)
	}
}

// drop takes a part out of a block.
func (b *block) drop(at int) {
	copy(b.items[at:], b.items[at+1:b.count])
	if b.inner != nil {
		copy(b.inner.blocks[at:], b.inner.blocks[at+1:b.count])
		copy(b.inner.covers[at:], b.inner.covers[at+1:b.count])
		b.inner.blocks[b.count-1] = nil
	}
	b.count--
}

// merge puts a small block together with the one beside it, if that leaves room to grow.
func (f *Fleet) merge(b *block, at int) {
	if at == b.count-1 {
		at--
	}
	if at < 0 || b.inner.blocks[at].count+b.inner.blocks[at+1].count > blockSize*3/4 {
		return
	}
	lower := b.inner.blocks[at]
	b.inner.blocks[at+1].moveTo(lower, 0)
	b.drop(at + 1)
	b.inner.covers[at] = f.coverOf(lower)
}

// touch makes covers tell of what a node has now, which stays where it is.
func (f *Fleet) touch(s *shelf, it item) {
	s.cover.loose = true
	f.include(&s.cover, it.id)
	b := s.root
	for b.inner != nil {
		at := b.child(it)
		b.inner.covers[at].loose = true
		f.include(&b.inner.covers[at], it.id)
		b = b.inner.blocks[at]
	}
	b.items[b.position(it)] = it
}

// coverOf counts the cover of a block that is not empty.
func (f *Fleet) coverOf(b *block) cover {
	if b.inner == nil {
		c := f.emptyCover(b.items[0].id)
		for i := 1; i < b.count; i++ {
			f.include(&c, b.items[i].id)
		}
		return c
	}
	c := b.inner.covers[0]
	c.loose = false // but for what its parts are
	for i := 1; i < b.count; i++ {
		part := &b.inner.covers[i]
		c.Include(&part.Figures)
		c.lowest, c.share = min(c.lowest, part.lowest), min(c.share, part.share)
		for j := range c.most {
			c.most[j], c.least[j] = max(c.most[j], part.most[j]), min(c.least[j], part.least[j])
		}
	}
	return c
}

// emptyCover is the cover of a node.
func (f *Fleet) emptyCover(id NodeID) cover {
	c := cover{Figures: f.figures[id], lowest: id, share: f.share(id), kind: f.kinds[f.nodes[id].kind]}
	for i, share := range f.sharesOf(id) {
		if i < coverShares {
			c.most[i], c.least[i] = share, share
		}
	}
	return c
}

// include makes a cover tell of one more node.
func (f *Fleet) include(c *cover, id NodeID) {
	c.Include(&f.figures[id])
	c.lowest, c.share = min(c.lowest, id), min(c.share, f.share(id))
	for i, share := range f.sharesOf(id) {
		if i < coverShares {
			c.most[i], c.least[i] = max(c.most[i], share), min(c.least[i], share)
		}
	}
}
