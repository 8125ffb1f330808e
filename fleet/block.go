package fleet

import "slices"

// blockSize is the most parts of a block: nodes, or smaller blocks.
const blockSize = 16

// A block holds adjacent parts: nodes, or smaller blocks.
type block struct {
	keys   [blockSize]int64 // of nodes; for smaller blocks: a lower bound of a block's keys, and an upper bound of the previous block's keys
	lowest [blockSize]NodeID
	count  int
	loose  fieldSet // parts that can be worse than their row
	parent *block   // which keeps it
	*inner          // nil: the parts are nodes

	// For searches that were begun before it gave parts to another block:
	successor              *block // to which it gave some last, or all
	lastMove, previousMove int64  // shelf.gives when it gave last, and when it gave the time before
	isMerged               bool   // it gave all
}

// inner holds the data of a block of blocks.
type inner struct {
	rows   [blockSize]row
	blocks [blockSize]*block
}

// position returns the position of a node in a block of nodes.
func (b *block) position(id NodeID) int {
	return slices.Index(b.lowest[:b.count], id)
}

// childIndex returns which of its smaller blocks a key is in or belongs to.
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

// insertGap makes room for a smaller block.
func (b *block) insertGap(at int) {
	copy(b.keys[at+1:], b.keys[at:b.count])
	copy(b.lowest[at+1:], b.lowest[at:b.count])
	copy(b.rows[at+1:], b.rows[at:b.count])
	copy(b.blocks[at+1:], b.blocks[at:b.count])
	b.count++
}

// removeChild takes a smaller block out.
func (b *block) removeChild(at int) {
	copy(b.keys[at:], b.keys[at+1:b.count])
	copy(b.lowest[at:], b.lowest[at+1:b.count])
	copy(b.rows[at:], b.rows[at+1:b.count])
	copy(b.blocks[at:], b.blocks[at+1:b.count])
	b.count--
	b.blocks[b.count] = nil
}

// appendNode adds a node.
func (b *block) appendNode(key int64, id NodeID) {
	b.keys[b.count], b.lowest[b.count] = key, id
	b.count++
}

// removeNode removes a node; the last node takes its position.
func (b *block) removeNode(at int) {
	b.count--
	b.keys[at], b.lowest[at] = b.keys[b.count], b.lowest[b.count]
}

// moveTo moves the parts from a position on to the end of another block.
func (b *block) moveTo(to *block, from int) {
	copy(to.keys[to.count:], b.keys[from:b.count])
	copy(to.lowest[to.count:], b.lowest[from:b.count])
	if b.inner != nil {
		for _, moved := range b.blocks[from:b.count] {
			moved.parent = to
		}
		copy(to.rows[to.count:], b.rows[from:b.count])
		copy(to.blocks[to.count:], b.blocks[from:b.count])
		clear(b.blocks[from:b.count])
	}
	to.count += b.count - from
	b.count = from
}

// halve moves the upper half of a block of nodes to an empty block, and returns its lowest key.
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

// includeEntry raises the row of a part to include a node, and reports whether the row has changed.
func (b *block) includeEntry(at int, e *entry) bool {
	raised := b.rows[at].include(&e.row)
	if e.id < b.lowest[at] {
		b.lowest[at], raised = e.id, true
	}
	return raised
}

// loosen marks a block of nodes as loose where it can be worse after the fall of a node.
func (b *block) loosen(at int, before *entry, f *decline) {
	fields := b.rows[at].dependsOn(&before.row, f)
	if f.isRemoved && before.id == b.lowest[at] {
		fields |= lowestField
	}
	b.blocks[at].loose |= fields
}
