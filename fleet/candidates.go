package fleet

// A candidate is a node that can be the best node, or a block that can contain it.
type candidate struct {
	bound   score  // that no node of it is below; of a node that was looked at, its score
	lowest  NodeID // of its nodes
	version uint32 // of a node: Fleet.versions when the bound was made
	block   *block // nil: a node; exactly: a node with a known score
}

// evaluatedNode marks a node with a known score. A separate field would not fit into half a cache line.
var evaluatedNode = new(block)

func (a *candidate) before(b *candidate) bool {
	return a.bound < b.bound || a.bound == b.bound && a.lowest < b.lowest
}

// isStale reports whether the candidate is a node that has changed since: then a newer candidate for the node exists.
func (a *candidate) isStale(versions []uint32) bool {
	return (a.block == nil || a.block == evaluatedNode) && a.version != versions[a.lowest]
}

// maxCandidate comes after all candidates.
var maxCandidate = candidate{bound: never}

// candidates are the candidates up to a limit: worse candidates were omitted.
type candidates struct {
	heap
	limit candidate
}

// Of more than mostKept candidates, about fewKept are retained. Tests change these values.
var targetCandidates, maxCandidates = 400, 1200

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

// trim leaves out nodes that are there a second time, and then those candidates that do not come soon, where there are many.
func (l *candidates) trim(versions []uint32) {
	if len(l.heap) <= maxCandidates {
		return
	}
	l.filter(func(c *candidate) bool { return !c.isStale(versions) })
	if len(l.heap) > maxCandidates {
		l.limit = l.estimateLimit()
		l.filter(func(c *candidate) bool { return !l.limit.before(c) })
	}
}

// filter keeps some in the heap.
func (l *candidates) filter(keepIf func(*candidate) bool) {
	kept := l.heap[:0]
	for i := range l.heap {
		if c := &l.heap[i]; keepIf(c) {
			kept = append(kept, *c)
		}
	}
	l.heap = kept
	kept.heapify()
}

// estimateLimit estimates the candidate at position fewKept from a sample.
func (l *candidates) estimateLimit() candidate {
	const samples = 16
	var buffer [samples]candidate
	sample := heap(buffer[:0])
	for i := range samples {
		sample.push(&l.heap[(2*i+1)*len(l.heap)/(2*samples)]) // without the first candidate, which is the best of all
	}
	for range samples * targetCandidates / len(l.heap) {
		sample.pop()
	}
	return sample[0]
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

// heapify makes a heap of candidates in any order.
func (h heap) heapify() {
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
