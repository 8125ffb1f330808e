package trace

// taskBlockSize is the number of tasks in a block.
const taskBlockSize = 16

// A tasks maps the tasks that have not ended to their slots. It stores the tasks of a job in blocks, and caches the last used block.
// Sources list the tasks of a job in order, so most rows need no lookup in the map of blocks. This map is too large for the CPU
// caches.
type tasks struct {
	blocks map[taskBlockKey]*taskBlock
	key    taskBlockKey
	last   *taskBlock // the block of key, or nil
	spare  []*taskBlock
}

type taskBlockKey struct {
	job  uint64
	part uint32 // task / taskBlockSize
}

// A taskBlock stores the slots of consecutive tasks: slot + 1 for a present task, and 0 for other tasks.
type taskBlock struct {
	slots [taskBlockSize]uint32
	used  int
}

// slot returns the slot of a task, or false if the task is not present.
func (t *tasks) slot(job uint64, task uint32) (slot uint32, there bool) {
	b := t.block(job, task)
	if b == nil {
		return 0, false
	}
	slot = b.slots[task%taskBlockSize]
	return slot - 1, slot > 0
}

// put stores the slot of a task. The slot must be lower than math.MaxUint32.
func (t *tasks) put(job uint64, task, slot uint32) {
	b := t.block(job, task)
	if b == nil {
		b = t.newBlock()
	}
	at := &b.slots[task%taskBlockSize]
	if *at == 0 {
		b.used++
	}
	*at = slot + 1
}

// remove removes a task, which must be present.
func (t *tasks) remove(job uint64, task uint32) {
	b := t.block(job, task)
	b.slots[task%taskBlockSize] = 0
	b.used--
	if b.used == 0 {
		delete(t.blocks, t.key)
		t.spare = append(t.spare, b)
		t.last = nil
	}
}

// block returns the block of a task, or nil if the block does not exist, and caches the result.
func (t *tasks) block(job uint64, task uint32) *taskBlock {
	key := taskBlockKey{job, task / taskBlockSize}
	if t.last == nil || t.key != key {
		t.key, t.last = key, t.blocks[key]
	}
	return t.last
}

// newBlock adds the block that the last call of the method block did not find.
func (t *tasks) newBlock() *taskBlock {
	if n := len(t.spare); n > 0 {
		t.last, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		t.last = &taskBlock{}
	}
	if t.blocks == nil {
		t.blocks = map[taskBlockKey]*taskBlock{}
	}
	t.blocks[t.key] = t.last
	return t.last
}
