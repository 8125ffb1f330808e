package fleet

import (
	"math"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// The nodes of one kind stand on a shelf, those that are alike for the fleet's order
// beside each other: sorted by a key, then by number, in blocks. A cover says of each block the
// best that any of its nodes could be, so that most blocks need not be opened.

// blockSize is the most nodes of a block.
const blockSize = 64

// An item is a node on a shelf.
type item struct {
	key int64
	id  NodeID
}

func (a item) before(b item) bool { return a.key < b.key || a.key == b.key && a.id < b.id }

// A block is nodes that stand together.
type block struct {
	count int
	items [blockSize]item
}

// coverResources is how many of the further resources a cover tells of.
const coverResources = 2

// A cover says what the nodes of a block have at most or at least. After a node has left it
// may say more than there is; then it is loose.
type cover struct {
	hybrid.Figures
	resources [coverResources]int64 // free; the most
	first     item
	lowest    NodeID
	loose     bool
}

// A shelf is the nodes of one kind.
type shelf struct {
	covers []cover
	blocks []*block
}

// find returns the index of the block where an item is or belongs.
func (s *shelf) find(it item) int {
	low, high := 0, len(s.covers)-1 // the last block that does not begin behind the item
	for low < high {
		middle := (low + high + 1) / 2
		if it.before(s.covers[middle].first) {
			high = middle - 1
		} else {
			low = middle
		}
	}
	return low
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

// insert puts a node on a shelf.
func (f *Fleet) insert(s *shelf, it item) {
	if len(s.blocks) == 0 {
		s.blocks, s.covers = append(s.blocks, new(block)), append(s.covers, cover{})
	}
	at := s.find(it)
	if s.blocks[at].count == blockSize {
		f.split(s, at)
		at = s.find(it)
	}
	b := s.blocks[at]
	i := b.position(it)
	copy(b.items[i+1:b.count+1], b.items[i:b.count])
	b.items[i] = it
	b.count++
	if b.count == 1 {
		f.recover(s, at)
		return
	}
	c := &s.covers[at]
	c.first = b.items[0]
	f.include(c, it.id)
}

// split makes two blocks of a full one.
func (f *Fleet) split(s *shelf, at int) {
	b, upper := s.blocks[at], new(block)
	upper.count = copy(upper.items[:], b.items[blockSize/2:])
	b.count = blockSize / 2
	s.blocks = slices.Insert(s.blocks, at+1, upper)
	s.covers = slices.Insert(s.covers, at+1, cover{})
	f.recover(s, at)
	f.recover(s, at+1)
}

// take takes a node off a shelf.
func (f *Fleet) take(s *shelf, it item) {
	at := s.find(it)
	b := s.blocks[at]
	i := b.position(it)
	copy(b.items[i:], b.items[i+1:b.count])
	b.count--
	c := &s.covers[at]
	c.first, c.loose = b.items[0], true
	if b.count < blockSize/4 {
		f.merge(s, at)
	}
}

// merge puts a small block together with a neighbour, if both fit into one with room to spare.
func (f *Fleet) merge(s *shelf, at int) {
	if s.blocks[at].count == 0 {
		s.blocks, s.covers = slices.Delete(s.blocks, at, at+1), slices.Delete(s.covers, at, at+1)
		return
	}
	if at+1 == len(s.blocks) {
		at--
	}
	if at < 0 {
		return
	}
	lower, upper := s.blocks[at], s.blocks[at+1]
	if lower.count+upper.count > blockSize*3/4 {
		return
	}
	lower.count += copy(lower.items[lower.count:], upper.items[:upper.count])
	s.blocks, s.covers = slices.Delete(s.blocks, at+1, at+2), slices.Delete(s.covers, at+1, at+2)
	f.recover(s, at)
}

// recover counts a block's cover anew. The block is not empty.
func (f *Fleet) recover(s *shelf, at int) {
	b, c := s.blocks[at], &s.covers[at]
	*c = cover{first: b.items[0], lowest: b.items[0].id, Figures: f.figures[b.items[0].id]}
	for i := range c.resources {
		c.resources[i] = math.MinInt64
	}
	for i := range b.count {
		f.include(c, b.items[i].id)
	}
}

// include makes a cover tell of one more node.
func (f *Fleet) include(c *cover, id NodeID) {
	c.Include(&f.figures[id])
	c.lowest = min(c.lowest, id)
	for i, amount := range f.freeOf(id) {
		if i < coverResources {
			c.resources[i] = max(c.resources[i], amount)
		}
	}
}

// refresh brings the index up to date with a node.
func (f *Fleet) refresh(id NodeID) {
	n := &f.nodes[id]
	s := &f.summaries[id]
	n.Summarize(s)
	f.figures[id] = s.Figures()
	n.refused = 0
	for class := range f.kinds[n.kind].shelves {
		shelf := &f.kinds[n.kind].shelves[class]
		if class > 0 && f.oneShelf() {
			break
		}
		key := f.key(id, hybrid.Class(class))
		if before := n.keys[class]; n.shelved && before == key {
			c := &shelf.covers[shelf.find(item{key, id})]
			c.loose = true
			f.include(c, id)
			continue
		} else if n.shelved {
			f.take(shelf, item{before, id})
		}
		n.keys[class] = key
		f.insert(shelf, item{key, id})
	}
	n.shelved = true
}

// drop takes a node off its shelves.
func (f *Fleet) drop(id NodeID) {
	n := &f.nodes[id]
	for class := range f.kinds[n.kind].shelves {
		if class == 0 || !f.oneShelf() {
			f.take(&f.kinds[n.kind].shelves[class], item{n.keys[class], id})
		}
	}
}

// oneShelf reports whether containers of both classes are placed from one shelf.
func (f *Fleet) oneShelf() bool { return f.options.Order == Least || f.options.Order == Most }

// shelfFor returns the shelf of a kind from which containers of a class are placed.
func (f *Fleet) shelfFor(k *kind, class hybrid.Class) *shelf {
	if f.oneShelf() {
		return &k.shelves[0]
	}
	return &k.shelves[class]
}

// byShare reports whether the share of what is free decides for a class.
func (f *Fleet) byShare(class hybrid.Class) bool {
	return f.oneShelf() || f.options.Order == Paper && class == hybrid.Flexible
}

// key says where a node stands on the shelf for a class.
func (f *Fleet) key(id NodeID, class hybrid.Class) int64 {
	g := &f.figures[id]
	if f.byShare(class) {
		w := &f.kinds[f.nodes[id].kind].weigher
		sum := w.weigh(int64(g.Free[hybrid.Flexible]), f.freeOf(id))
		if f.options.Order == Most {
			return sum
		}
		return -sum
	}
	parts := [5]uint16{g.Shared, g.Spare, g.MultiRoom >> 7, 0, 0}
	switch {
	case class == hybrid.Flexible:
		parts = [5]uint16{g.Spare, min(uint16(g.Ease+1)>>6, 63), 0, 0, 0}
	case f.options.Order == Paper:
		parts = [5]uint16{0, g.Shared, g.Room >> 7, 0, 0}
		if g.WithFlexible {
			parts[0] = 1
		}
	default:
		parts[3], parts[4] = min(g.NextLent>>7, 8), g.Room>>7
	}
	var key int64
	for _, part := range parts {
		key = key<<11 | int64(part)
	}
	return key
}
