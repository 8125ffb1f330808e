package fleet

import (
	"math"

	"github.com/candor-project/candor/hybrid"
)

// All nodes are in a B+ tree, called a shelf, with nodes that are alike for the fleet's order next to each other: in blocks by a key,
// without order within a block; blocks are in larger blocks in the order of their keys. A block stores a row for each smaller block, so that
// a search skips most parts. Nodes of different sizes are in trees of their own, unless the key contains the size.

// A shelf is all nodes.
type shelf struct {
	trees []*block   // by size (sizeOfKey), each with the block of all its nodes as its only part; nil: no node
	rows  []row      // of the nodes, by NodeID
	gives int64      // number of moves of parts between blocks
	dead  [64]*block // blocks that gave away all of theirs, in a ring: as many as die while an answer is of use
	died  int
}

// An item is a node on a shelf.
type item struct {
	key int64
	id  NodeID
	row row
}

// idBits are those of a node's number in its key: so all keys differ.
const idBits = 20

// row returns the row of a part of a block.
func (s *shelf) row(b *block, at int) *row {
	if b.inner == nil {
		return &s.rows[b.lowest[at]]
	}
	return &b.rows[at]
}

// insert puts a node on a shelf. Its row must be that of the item from now on.
func (s *shelf) insert(it *item) {
	size := sizeOfKey(it.key)
	for size >= len(s.trees) {
		s.trees = append(s.trees, nil)
	}
	if s.trees[size] == nil {
		tree := &block{count: 1, inner: new(inner)}
		tree.blocks[0], tree.lowest[0], tree.rows[0] = &block{parent: tree}, MaxNodes, noRow
		tree.rows[0].size = it.row.size
		s.trees[size] = tree
	}
	s.makeRoom(s.trees[size])
	s.insertInto(s.trees[size], it)
}

// makeRoom sees to it that the block of all nodes of a size is not full.
func (s *shelf) makeRoom(tree *block) {
	if tree.blocks[0].count == blockSize {
		root := &block{count: 1, inner: new(inner), parent: tree}
		root.blocks[0], root.keys[0] = tree.blocks[0], math.MinInt64
		root.blocks[0].parent = root
		s.split(root, 0)
		tree.blocks[0] = root
	}
}

// insertInto puts a node into a block that is not full, and reports whether that is better for it.
func (s *shelf) insertInto(b *block, it *item) (better bool) {
	if b.inner == nil {
		b.append(it.key, it.id)
		return true
	}
	at := b.child(it.key)
	if b.blocks[at].count == blockSize {
		s.split(b, at)
		at = b.child(it.key)
	}
	return s.insertInto(b.blocks[at], it) && b.raise(at, it)
}

// split splits a full block within a block that is not full.
func (s *shelf) split(b *block, at int) {
	lower, upper := b.blocks[at], &block{parent: b}
	s.give(lower, upper)
	key := lower.keys[blockSize/2]
	if lower.inner != nil {
		upper.inner = new(inner)
		lower.moveTo(upper, blockSize/2)
	} else {
		key = lower.halve(upper)
	}
	b.openAt(at + 1)
	b.keys[at+1], b.blocks[at+1] = key, upper
	b.loose |= lower.loose
	s.renew(b, at)
	s.renew(b, at+1)
}

// tighten computes the loose figures of a part's row again, from the rows below.
func (s *shelf) tighten(b *block, at int) {
	part, lowest := b.blocks[at], NodeID(MaxNodes)
	var room [blockSize]*row
	rows := room[:part.count]
	for i := range rows {
		rows[i] = s.row(part, i)
		lowest = min(lowest, part.lowest[i])
	}
	before := b.rows[at]
	b.rows[at].best(part.loose, rows)
	b.loose |= before.differs(&b.rows[at])
	if lowest != b.lowest[at] {
		b.lowest[at], b.loose = lowest, b.loose|lowestMark
	}
	part.loose = 0
}

// renew computes the whole row of a part again after nodes moved. The caller decides whether the block itself is loose.
func (s *shelf) renew(b *block, at int) {
	loose, part := b.loose, b.blocks[at]
	part.loose = allMarks
	b.rows[at].size = anySize
	if part.count > 0 {
		b.rows[at].size = s.row(part, 0).size
	}
	s.tighten(b, at)
	b.loose = loose
}

// remove takes a node off a shelf.
func (s *shelf) remove(it *item) {
	f, size := goneOf(&it.row), sizeOfKey(it.key)
	s.removeFrom(s.trees[size], it, &f)
	s.dropEmpty(size)
}

// dropEmpty removes empty blocks after a node has left.
func (s *shelf) dropEmpty(size int) {
	tree := s.trees[size]
	if root := tree.blocks[0]; root.inner != nil && root.count == 1 {
		child := root.blocks[0]
		tree.blocks[0], child.parent = child, tree
		child.loose |= root.loose
		s.give(root, child)
		s.bury(root)
		root.count = 0
	}
	if tree.blocks[0].count == 0 {
		s.trees[size] = nil
	}
}

// removeFrom takes a node out of a block.
func (s *shelf) removeFrom(b *block, it *item, f *fall) {
	at := b.child(it.key)
	below := b.blocks[at]
	if below.inner != nil {
		s.removeFrom(below, it, f)
	} else {
		below.take(below.position(it.id))
		b.lose(at, it, f)
	}
	if below.count < blockSize/4 && b.parent != nil {
		s.merge(b, at)
	}
}

// merge merges a small block with its neighbor, if that leaves space to grow.
func (s *shelf) merge(b *block, at int) {
	at = min(at, b.count-2)
	if at < 0 || b.blocks[at].count+b.blocks[at+1].count > blockSize*3/4 && b.blocks[at].count*b.blocks[at+1].count > 0 {
		return
	}
	b.loose |= b.blocks[at].loose | b.blocks[at+1].loose
	s.give(b.blocks[at+1], b.blocks[at])
	s.bury(b.blocks[at+1])
	b.blocks[at+1].moveTo(b.blocks[at], 0)
	b.closeAt(at + 1)
	s.renew(b, at)
}

// give notes that a block gives parts to another, for searches that have still to open the first.
func (s *shelf) give(from, to *block) {
	s.gives++
	from.gaveBefore, from.gave, from.heir = from.gave, s.gives, to
}

// bury makes the block that died longest ago forget its heir, so that no chain of dead blocks grows.
func (s *shelf) bury(b *block) {
	at := &s.dead[s.died%len(s.dead)]
	if *at != nil {
		(*at).heir = nil
	}
	*at = b
	b.dead = true
	s.died++
}

// move changes the key of a node on a shelf, within the same size, and its row. From now on the node must have the new row.
func (s *shelf) move(before, now *item, f *fall) {
	size := sizeOfKey(now.key)
	s.makeRoom(s.trees[size])
	s.moveIn(s.trees[size], before, now, f)
	s.dropEmpty(size)
}

// moveIn is move within a block that is not full. It reports whether that is better for it.
func (s *shelf) moveIn(b *block, before, now *item, f *fall) (better bool) {
	from, to := b.child(before.key), b.child(now.key)
	if below := b.blocks[to]; from == to && below.inner != nil && below.count == blockSize {
		s.split(b, to)
		from, to = b.child(before.key), b.child(now.key)
	}
	if from != to {
		gone := goneOf(&before.row)
		s.removeFrom(b, before, &gone)
		return s.insertInto(b, now)
	}
	below := b.blocks[to]
	if below.inner != nil {
		return s.moveIn(below, before, now, f) && b.raise(to, now)
	}
	below.keys[below.position(now.id)] = now.key
	b.lose(to, before, f)
	return b.raise(to, now)
}

// shelvesOf returns the shelves by class, or the common shelf.
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
