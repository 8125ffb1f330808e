package fleet

import (
	"math"

	"github.com/candor-project/candor/hybrid"
)

// All nodes are in a B+ tree, called a shelf, with nodes that are alike for the fleet's order next to each other: in blocks by a key,
// without order within a block; blocks are in larger blocks in the order of their keys. A block stores a row for each smaller block, so that
// a search skips most parts. Nodes of different sizes are in trees of their own, unless the key contains the size.

// A nodeIndex is all nodes.
type nodeIndex struct {
	trees       []*block   // by size (sizeOfKey), each with the block of all its nodes as its only part; nil: no node
	rows        []row      // of the nodes, by NodeID
	moveCount   int64      // number of moves of parts between blocks
	merged      [64]*block // blocks that gave away all of theirs, in a ring: as many as die while an answer is of use
	mergedCount int
}

// An entry is a node on a shelf.
type entry struct {
	key int64
	id  NodeID
	row row
}

// idBits are those of a node's number in its key: so all keys differ.
const idBits = 20

// rowOf returns the row of a part of a block.
func (s *nodeIndex) rowOf(b *block, at int) *row {
	if b.inner == nil {
		return &s.rows[b.lowest[at]]
	}
	return &b.rows[at]
}

// insert puts a node on a shelf. Its row must be that of the item from now on.
func (s *nodeIndex) insert(e *entry) {
	size := sizeOfKey(e.key)
	for size >= len(s.trees) {
		s.trees = append(s.trees, nil)
	}
	if s.trees[size] == nil {
		tree := &block{count: 1, inner: new(inner)}
		tree.blocks[0], tree.lowest[0], tree.rows[0] = &block{parent: tree}, MaxNodes, worstRow
		tree.rows[0].size = e.row.size
		s.trees[size] = tree
	}
	s.splitFullRoot(s.trees[size])
	s.insertInto(s.trees[size], e)
}

// splitFullRoot sees to it that the block of all nodes of a size is not full.
func (s *nodeIndex) splitFullRoot(tree *block) {
	if tree.blocks[0].count == blockSize {
		root := &block{count: 1, inner: new(inner), parent: tree}
		root.blocks[0], root.keys[0] = tree.blocks[0], math.MinInt64
		root.blocks[0].parent = root
		s.split(root, 0)
		tree.blocks[0] = root
	}
}

// insertInto puts a node into a block that is not full, and reports whether that is better for it.
func (s *nodeIndex) insertInto(b *block, e *entry) (raised bool) {
	if b.inner == nil {
		b.appendNode(e.key, e.id)
		return true
	}
	at := b.childIndex(e.key)
	if b.blocks[at].count == blockSize {
		s.split(b, at)
		at = b.childIndex(e.key)
	}
	return s.insertInto(b.blocks[at], e) && b.includeEntry(at, e)
}

// split splits a full block within a block that is not full.
func (s *nodeIndex) split(b *block, at int) {
	lower, upper := b.blocks[at], &block{parent: b}
	s.recordMove(lower, upper)
	key := lower.keys[blockSize/2]
	if lower.inner != nil {
		upper.inner = new(inner)
		lower.moveTo(upper, blockSize/2)
	} else {
		key = lower.halve(upper)
	}
	b.insertGap(at + 1)
	b.keys[at+1], b.blocks[at+1] = key, upper
	b.loose |= lower.loose
	s.recomputeRow(b, at)
	s.recomputeRow(b, at+1)
}

// tighten computes the loose figures of a part's row again, from the rows below.
func (s *nodeIndex) tighten(b *block, at int) {
	part, lowest := b.blocks[at], NodeID(MaxNodes)
	var buffer [blockSize]*row
	rows := buffer[:part.count]
	for i := range rows {
		rows[i] = s.rowOf(part, i)
		lowest = min(lowest, part.lowest[i])
	}
	before := b.rows[at]
	b.rows[at].setBest(part.loose, rows)
	b.loose |= before.diff(&b.rows[at])
	if lowest != b.lowest[at] {
		b.lowest[at], b.loose = lowest, b.loose|lowestField
	}
	part.loose = 0
}

// recomputeRow computes the whole row of a part again after nodes moved. The caller decides whether the block itself is loose.
func (s *nodeIndex) recomputeRow(b *block, at int) {
	loose, part := b.loose, b.blocks[at]
	part.loose = allFields
	b.rows[at].size = anySize
	if part.count > 0 {
		b.rows[at].size = s.rowOf(part, 0).size
	}
	s.tighten(b, at)
	b.loose = loose
}

// remove takes a node off a shelf.
func (s *nodeIndex) remove(e *entry) {
	f, size := removalOf(&e.row), sizeOfKey(e.key)
	s.removeFrom(s.trees[size], e, &f)
	s.dropEmpty(size)
}

// dropEmpty removes empty blocks after a node has left.
func (s *nodeIndex) dropEmpty(size int) {
	tree := s.trees[size]
	if root := tree.blocks[0]; root.inner != nil && root.count == 1 {
		child := root.blocks[0]
		tree.blocks[0], child.parent = child, tree
		child.loose |= root.loose
		s.recordMove(root, child)
		s.retire(root)
		root.count = 0
	}
	if tree.blocks[0].count == 0 {
		s.trees[size] = nil
	}
}

// removeFrom takes a node out of a block.
func (s *nodeIndex) removeFrom(b *block, e *entry, f *decline) {
	at := b.childIndex(e.key)
	below := b.blocks[at]
	if below.inner != nil {
		s.removeFrom(below, e, f)
	} else {
		below.removeNode(below.position(e.id))
		b.loosen(at, e, f)
	}
	if below.count < blockSize/4 && b.parent != nil {
		s.merge(b, at)
	}
}

// merge merges a small block with its neighbor, if that leaves space to grow.
func (s *nodeIndex) merge(b *block, at int) {
	at = min(at, b.count-2)
	if at < 0 || b.blocks[at].count+b.blocks[at+1].count > blockSize*3/4 && b.blocks[at].count*b.blocks[at+1].count > 0 {
		return
	}
	b.loose |= b.blocks[at].loose | b.blocks[at+1].loose
	s.recordMove(b.blocks[at+1], b.blocks[at])
	s.retire(b.blocks[at+1])
	b.blocks[at+1].moveTo(b.blocks[at], 0)
	b.removeChild(at + 1)
	s.recomputeRow(b, at)
}

// recordMove notes that a block gives parts to another, for searches that have still to open the first.
func (s *nodeIndex) recordMove(from, to *block) {
	s.moveCount++
	from.previousMove, from.lastMove, from.successor = from.lastMove, s.moveCount, to
}

// retire makes the block that died longest ago forget its heir, so that no chain of dead blocks grows.
func (s *nodeIndex) retire(b *block) {
	at := &s.merged[s.mergedCount%len(s.merged)]
	if *at != nil {
		(*at).successor = nil
	}
	*at = b
	b.isMerged = true
	s.mergedCount++
}

// move changes the key of a node on a shelf, within the same size, and its row. From now on the node must have the new row.
func (s *nodeIndex) move(before, now *entry, f *decline) {
	size := sizeOfKey(now.key)
	s.splitFullRoot(s.trees[size])
	s.moveIn(s.trees[size], before, now, f)
	s.dropEmpty(size)
}

// moveIn is move within a block that is not full. It reports whether that is better for it.
func (s *nodeIndex) moveIn(b *block, before, now *entry, f *decline) (raised bool) {
	from, to := b.childIndex(before.key), b.childIndex(now.key)
	if below := b.blocks[to]; from == to && below.inner != nil && below.count == blockSize {
		s.split(b, to)
		from, to = b.childIndex(before.key), b.childIndex(now.key)
	}
	if from != to {
		removal := removalOf(&before.row)
		s.removeFrom(b, before, &removal)
		return s.insertInto(b, now)
	}
	below := b.blocks[to]
	if below.inner != nil {
		return s.moveIn(below, before, now, f) && b.includeEntry(to, now)
	}
	below.keys[below.position(now.id)] = now.key
	b.loosen(to, before, f)
	return b.includeEntry(to, now)
}

// activeIndexes returns the shelves by class, or the common shelf.
func (f *Fleet) activeIndexes() []nodeIndex {
	if f.hasSingleIndex() {
		return f.indexes[:1]
	}
	return f.indexes[:]
}

// indexFor returns the shelf from which containers of a class are placed.
func (f *Fleet) indexFor(class hybrid.Class) *nodeIndex {
	indexes := f.activeIndexes()
	return &indexes[min(int(class), len(indexes)-1)]
}
