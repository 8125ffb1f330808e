package fleet

// A candidate is a node that can be the best node, or a block that can contain it.
type candidate struct {
	bound   score  // that no node of it is below; of a node that was looked at, its score
	lowest  NodeID // of its nodes
	version uint32 // of a node: Fleet.versions when the bound was made
	block   *block // nil: a node; exactly: a node with a known score
}

// exactly marks a node with a known score. A separate field would not fit into half a cache line.
var exactly = new(block)

func (a *candidate) before(b *candidate) bool {
	return a.bound < b.bound || a.bound == b.bound && a.lowest < b.lowest
}

// isStale reports whether the candidate is a node that has changed since: then a newer candidate for the node exists.
func (a *candidate) isStale(versions []uint32) bool {
	return (a.block == nil || a.block == exactly) && a.version != versions[a.lowest]
}

// behind comes after all candidates.
var behind = candidate{bound: never}

// candidates are the candidates up to a limit: worse candidates were omitted.
type candidates struct {
	heap
	limit candidate
}

// Of more than mostKept candidates, about fewKept are retained. Tests change these values.
var fewKept, mostKept = 400, 1200

func (l *candidates) push(c *candidate) {
	if !l.limit.before(c) {
		l.heap.push(c)
	}
}

// replace replaces the first candidate.
func (l *candidates) replace(c *candidate) {
	if l.limit.before(c) {
		l.pop()
	} else {
		l.heap.replace(c)
	}
}

// thin leaves out nodes that are there a second time, and then those candidates that do not come soon, where there are many.
func (l *candidates) thin(versions []uint32) {
	if len(l.heap) <= mostKept {
		return
	}
	l.keep(func(c *candidate) bool { return !c.isStale(versions) })
	if len(l.heap) > mostKept {
		l.limit = l.soon()
		l.keep(func(c *candidate) bool { return !l.limit.before(c) })
	}
}

// keep keeps some in the heap.
func (l *candidates) keep(is func(*candidate) bool) {
	kept := l.heap[:0]
	for i := range l.heap {
		if c := &l.heap[i]; is(c) {
			kept = append(kept, *c)
		}
	}
	l.heap = kept
	kept.order()
}

// soon estimates the candidate at position fewKept from a sample.
func (l *candidates) soon() candidate {
	const asked = 16
	var room [asked]candidate
	few := heap(room[:0])
	for i := range asked {
		few.push(&l.heap[(2*i+1)*len(l.heap)/(2*asked)]) // without the first candidate, which is the best of all
	}
	for range asked * fewKept / len(l.heap) {
		few.pop()
	}
	return few[0]
}

// A heap is a min-heap of candidates by their bound.
type heap []candidate

func (h *heap) push(c *candidate) {
	*h = append(*h, *c)
	l := *h
	i := len(l) - 1
	for i > 0 && c.before(&l[(i-1)/2]) {
		l[i] = l[(i-1)/2]
		i = (i - 1) / 2
	}
	l[i] = *c
}

// pop removes the first candidate. The heap must not be empty.
func (h *heap) pop() {
	end := len(*h) - 1
	c := (*h)[end]
	if *h = (*h)[:end]; end > 0 {
		h.replace(&c)
	}
}

// order makes a heap of candidates in any order.
func (h heap) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		c := h[i]
		h.sink(i, &c)
	}
}

// replace replaces the first candidate.
func (h heap) replace(c *candidate) { h.sink(0, c) }

// sink puts a candidate at a place, or below it.
func (h heap) sink(i int, c *candidate) {
	for 2*i+1 < len(h) {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(c) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = *c
}
