package fleet

// A candidate is a node that may be the best node, or a block below which the best node may be.
type candidate struct {
	bound   score  // no node of the candidate has a lower score; for an evaluated node, the node's score
	lowest  NodeID // the node, or the lowest NodeID below the block
	version uint32 // for a node: the value of Fleet.versions for which the bound was computed
	block   *block // nil for a node that is not evaluated; evaluatedNode for an evaluated node
}

// evaluatedNode marks a candidate whose bound is a node's exact score. A boolean field would make the candidate larger than half a cache
// line.
var evaluatedNode = new(block)

func (a *candidate) before(b *candidate) bool {
	return a.bound < b.bound || a.bound == b.bound && a.lowest < b.lowest
}

// isStale reports whether the candidate is a node that has changed since its bound was computed. In this case, the search state
// has a newer candidate for the node, unless the node cannot take the container anymore.
func (a *candidate) isStale(versions []uint32) bool {
	return (a.block == nil || a.block == evaluatedNode) && a.version != versions[a.lowest]
}

// maxCandidate comes after all candidates.
var maxCandidate = candidate{bound: never}

// candidates holds a heap of candidates. Candidates that come after limit have been omitted to save memory.
type candidates struct {
	heap
	limit candidate
}

// If a search state has more than maxCandidates candidates, trim reduces them to about targetCandidates. Tests change these values.
var targetCandidates, maxCandidates = 400, 1200

// push adds a candidate unless it comes after l.limit in the order of the candidates.
func (l *candidates) push(c *candidate) {
	if !l.limit.before(c) {
		l.heap.push(c)
	}
}

// replace replaces the first candidate. If the new candidate comes after l.limit, replace only removes the first candidate.
func (l *candidates) replace(c *candidate) {
	if l.limit.before(c) {
		l.pop()
	} else {
		l.heap.replace(c)
	}
}

// trim removes the stale candidates if there are more than maxCandidates candidates. If still too many remain, it removes the candidates
// after an estimated limit.
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

// filter removes the candidates for which keepIf is false.
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

// estimateLimit estimates, from a sample, which candidate is at position targetCandidates in ascending order.
func (l *candidates) estimateLimit() candidate {
	const samples = 16
	var buffer [samples]candidate
	sample := heap(buffer[:0])
	for i := range samples {
		sample.push(&l.heap[(2*i+1)*len(l.heap)/(2*samples)]) // never index 0, because the first candidate is the best
	}
	for range samples * targetCandidates / len(l.heap) {
		sample.pop()
	}
	return sample[0]
}

// A heap is a binary min-heap of candidates.
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

// heapify establishes the heap order among candidates in any order.
func (h heap) heapify() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		c := h[i]
		h.sink(i, &c)
	}
}

// replace replaces the first candidate.
func (h heap) replace(c *candidate) { h.sink(0, c) }

// sink inserts a candidate at index i, whose old content is lost. It moves smaller children up until the candidate precedes its children.
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
