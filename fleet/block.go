package fleet

import "slices"

// blockSize is the maximum number of children of a block.
const blockSize = 16

// A block is a block of the B+ tree (btree.go). The children of a leaf block are nodes, in any order. The children of an inner block are
// blocks, in the order of their keys.
type block struct {
	keys   [blockSize]int64  // leaf: the nodes' keys; inner: a lower bound of the child's keys, above all keys of the previous child
	lowest [blockSize]NodeID // leaf: the nodes; inner: the lowest NodeID below the child
	count  int
	loose  fieldSet // fields that may be loose in this block's row (the parent holds the row)
	parent *block
	*inner // nil in a leaf block

	// A search that started before children moved to another block uses these fields to find the children:
	successor              *block // the block to which children moved last
	lastMove, previousMove int64  // nodeIndex.moveCount after the last move of children, and after the move before
	isMerged               bool   // all children moved to the successor, and the block is no longer in the tree
}

// inner holds the further data of an inner block.
type inner struct {
	rows   [blockSize]row
	blocks [blockSize]*block
}

// position returns the index of a node in a leaf block.
func (b *block) position(id NodeID) int {
	return slices.Index(b.lowest[:b.count], id)
}

// childIndex returns the index of the child of an inner block that contains the key, or into which the key must be inserted.
func (b *block) childIndex(key int64) int {
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

// insertGap moves the children of an inner block at index i and above to the next index. The caller fills the gap.
func (b *block) insertGap(i int) {
	copy(b.keys[i+1:], b.keys[i:b.count])
	copy(b.lowest[i+1:], b.lowest[i:b.count])
	copy(b.rows[i+1:], b.rows[i:b.count])
	copy(b.blocks[i+1:], b.blocks[i:b.count])
	b.count++
}

// removeChild removes the child at index i from an inner block.
func (b *block) removeChild(i int) {
	copy(b.keys[i:], b.keys[i+1:b.count])
	copy(b.lowest[i:], b.lowest[i+1:b.count])
	copy(b.rows[i:], b.rows[i+1:b.count])
	copy(b.blocks[i:], b.blocks[i+1:b.count])
	b.count--
	b.blocks[b.count] = nil
}

// appendNode adds a node to a leaf block.
func (b *block) appendNode(key int64, id NodeID) {
	b.keys[b.count], b.lowest[b.count] = key, id
	b.count++
}

// removeNode removes the node at index i from a leaf block. The last node of the block moves to index i.
func (b *block) removeNode(i int) {
	b.count--
	b.keys[i], b.lowest[i] = b.keys[b.count], b.lowest[b.count]
}

// moveTo appends the children at index start and above to another block, and removes them here.
func (b *block) moveTo(to *block, start int) {
	copy(to.keys[to.count:], b.keys[start:b.count])
	copy(to.lowest[to.count:], b.lowest[start:b.count])
	if b.inner != nil {
		for _, child := range b.blocks[start:b.count] {
			child.parent = to
		}
		copy(to.rows[to.count:], b.rows[start:b.count])
		copy(to.blocks[to.count:], b.blocks[start:b.count])
		clear(b.blocks[start:b.count])
	}
	to.count += b.count - start
	b.count = start
}

// halve moves half of a leaf block's nodes, those with the higher keys, to an empty block. It returns the lowest key in that
// block.
func (b *block) halve(upper *block) int64 {
	keys := b.keys
	slices.Sort(keys[:b.count])
	key := keys[b.count/2]
	for i := b.count - 1; i >= 0; i-- {
		if b.keys[i] >= key {
			upper.appendNode(b.keys[i], b.lowest[i])
			b.removeNode(i)
		}
	}
	return key
}

// includeEntry includes a node in the row of the child at index i, and reports whether the row has changed.
func (b *block) includeEntry(i int, e *entry) bool {
	raised := b.rows[i].include(&e.row)
	if e.id < b.lowest[i] {
		b.lowest[i], raised = e.id, true
	}
	return raised
}

// loosen marks fields as loose in the row of the child at index i, a leaf block: the fields whose values may come from a node that has
// become worse.
func (b *block) loosen(i int, before *entry, d *decline) {
	fields := b.rows[i].dependsOn(&before.row, d)
	if d.isRemoved && before.id == b.lowest[i] {
		fields |= lowestField
	}
	b.blocks[i].loose |= fields
}
