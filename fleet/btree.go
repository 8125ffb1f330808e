package fleet

import (
	"math"

	"github.com/candor-project/candor/hybrid"
)

// A nodeIndex holds all nodes in B+ trees, ordered by a key (Fleet.key). Nodes with similar scores in the fleet's order have
// similar keys. A block holds adjacent nodes or smaller blocks. An inner block stores a row for each child, so that a search can
// skip most blocks. If the key contains the size of a node (size.go), each size has a tree of its own.
type nodeIndex struct {
	trees       []*block   // by size (sizeOfKey): a block whose only child is the root of the tree; nil if the size has no nodes
	rows        []row      // rows of the nodes, by NodeID
	moveCount   int64      // number of times that children moved from a block to another
	merged      [64]*block // ring buffer of the latest blocks with isMerged
	mergedCount int        // number of blocks that were ever added to merged
}

// An entry is a node in a nodeIndex.
type entry struct {
	key int64
	id  NodeID
	row row
}

// idBits is the number of low bits of a key that hold the node's NodeID, so that all keys differ.
const idBits = 20

// rowOf returns the row of the child at index i of a block.
func (s *nodeIndex) rowOf(b *block, i int) *row {
	if b.inner == nil {
		return &s.rows[b.lowest[i]]
	}
	return &b.rows[i]
}

// insert adds a node. The caller must then store the entry's row in s.rows.
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

// splitFullRoot gives a tree a new root above the old root if the old root is full. Afterwards, the root is not full, as
// insertInto and moveIn require.
func (s *nodeIndex) splitFullRoot(tree *block) {
	if tree.blocks[0].count == blockSize {
		root := &block{count: 1, inner: new(inner), parent: tree}
		root.blocks[0], root.keys[0] = tree.blocks[0], math.MinInt64
		root.blocks[0].parent = root
		s.split(root, 0)
		tree.blocks[0] = root
	}
}

// insertInto adds a node below a block that is not full. It reports whether the caller must include the node in the row of the
// block b, too. This is not necessary if the row of b's child has not changed.
func (s *nodeIndex) insertInto(b *block, e *entry) (raised bool) {
	if b.inner == nil {
		b.appendNode(e.key, e.id)
		return true
	}
	i := b.childIndex(e.key)
	if b.blocks[i].count == blockSize {
		s.split(b, i)
		i = b.childIndex(e.key)
	}
	return s.insertInto(b.blocks[i], e) && b.includeEntry(i, e)
}

// split divides the full child at index i of b in two. The block b itself must not be full.
func (s *nodeIndex) split(b *block, i int) {
	lower, upper := b.blocks[i], &block{parent: b}
	s.recordMove(lower, upper)
	key := lower.keys[blockSize/2]
	if lower.inner != nil {
		upper.inner = new(inner)
		lower.moveTo(upper, blockSize/2)
	} else {
		key = lower.halve(upper)
	}
	b.insertGap(i + 1)
	b.keys[i+1], b.blocks[i+1] = key, upper
	b.loose |= lower.loose
	s.recomputeRow(b, i)
	s.recomputeRow(b, i+1)
}

// tighten recomputes the row that the block b holds for its child at index i. It computes only the loose fields, from the rows of
// the child's children. It marks the fields that change as loose in the row of the block b.
func (s *nodeIndex) tighten(b *block, i int) {
	child, lowest := b.blocks[i], NodeID(MaxNodes)
	var buffer [blockSize]*row
	rows := buffer[:child.count]
	for i := range rows {
		rows[i] = s.rowOf(child, i)
		lowest = min(lowest, child.lowest[i])
	}
	before := b.rows[i]
	b.rows[i].setBest(child.loose, rows)
	b.loose |= before.diff(&b.rows[i])
	if lowest != b.lowest[i] {
		b.lowest[i], b.loose = lowest, b.loose|lowestField
	}
	child.loose = 0
}

// recomputeRow recomputes all fields of the row of the child at index i after children moved. It does not change b.loose, because
// the caller sets b.loose.
func (s *nodeIndex) recomputeRow(b *block, i int) {
	loose, child := b.loose, b.blocks[i]
	child.loose = allFields
	b.rows[i].size = anySize
	if child.count > 0 {
		b.rows[i].size = s.rowOf(child, 0).size
	}
	s.tighten(b, i)
	b.loose = loose
}

// remove removes a node.
func (s *nodeIndex) remove(e *entry) {
	removal, size := removalOf(&e.row), sizeOfKey(e.key)
	s.removeFrom(s.trees[size], e, &removal)
	s.dropEmpty(size)
}

// dropEmpty replaces the root of a tree by the root's child if the root is an inner block with a single child. It drops
// a tree without nodes.
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

// removeFrom removes a node that is below the block b.
func (s *nodeIndex) removeFrom(b *block, e *entry, d *decline) {
	i := b.childIndex(e.key)
	below := b.blocks[i]
	if below.inner != nil {
		s.removeFrom(below, e, d)
	} else {
		below.removeNode(below.position(e.id))
		b.loosen(i, e, d)
	}
	if below.count < blockSize/4 && b.parent != nil {
		s.merge(b, i)
	}
}

// merge merges the small child at index i with a neighbor. It does nothing if both have children, and the merged block would be
// more than three quarters full.
func (s *nodeIndex) merge(b *block, i int) {
	i = min(i, b.count-2)
	if i < 0 || b.blocks[i].count+b.blocks[i+1].count > blockSize*3/4 && b.blocks[i].count*b.blocks[i+1].count > 0 {
		return
	}
	b.loose |= b.blocks[i].loose | b.blocks[i+1].loose
	s.recordMove(b.blocks[i+1], b.blocks[i])
	s.retire(b.blocks[i+1])
	b.blocks[i+1].moveTo(b.blocks[i], 0)
	b.removeChild(i + 1)
	s.recomputeRow(b, i)
}

// recordMove records that children move from a block to another, for searches that have not opened the first block yet.
func (s *nodeIndex) recordMove(from, to *block) {
	s.moveCount++
	from.previousMove, from.lastMove, from.successor = from.lastMove, s.moveCount, to
}

// retire marks a block as merged. It clears the successor of the oldest block in s.merged, so that merged blocks do not form an
// ever longer list that the garbage collector cannot free.
func (s *nodeIndex) retire(b *block) {
	i := &s.merged[s.mergedCount%len(s.merged)]
	if *i != nil {
		(*i).successor = nil
	}
	*i = b
	b.isMerged = true
	s.mergedCount++
}

// move moves a node to its new key, within the same size, and updates the rows of the blocks above. The caller must then store the new row
// in s.rows.
func (s *nodeIndex) move(before, now *entry, d *decline) {
	size := sizeOfKey(now.key)
	s.splitFullRoot(s.trees[size])
	s.moveIn(s.trees[size], before, now, d)
	s.dropEmpty(size)
}

// moveIn does the work of move below the block b, which is not full. It returns the same result as insertInto.
func (s *nodeIndex) moveIn(b *block, before, now *entry, d *decline) (raised bool) {
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
		return s.moveIn(below, before, now, d) && b.includeEntry(to, now)
	}
	below.keys[below.position(now.id)] = now.key
	b.loosen(to, before, d)
	return b.includeEntry(to, now)
}

// activeIndexes returns an index for each class, or the single index of both classes.
func (f *Fleet) activeIndexes() []nodeIndex {
	if f.hasSingleIndex() {
		return f.indexes[:1]
	}
	return f.indexes[:]
}

// indexFor returns the index that a search for a container of this class uses.
func (f *Fleet) indexFor(class hybrid.Class) *nodeIndex {
	indexes := f.activeIndexes()
	return &indexes[min(int(class), len(indexes)-1)]
}
