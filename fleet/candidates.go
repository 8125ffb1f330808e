package fleet

// A candidate is a block that may have a better node, or a node that has to be asked.
type candidate struct {
	bound  score
	lowest NodeID
	part   part // of no block: the node
}

func (a *candidate) before(b *candidate) bool {
	return a.bound < b.bound || a.bound == b.bound && a.lowest < b.lowest
}

// candidates are a heap: the one with the best bound first.
type candidates []candidate

func (l *candidates) push(c candidate) {
	*l = append(*l, c)
	h := *l
	i := len(h) - 1
	for i > 0 && c.before(&h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = c
}

// pop takes the first one out. There must be one.
func (l *candidates) pop() candidate {
	h := *l
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*l = h
	i := 0
	for 2*i+1 < len(h) {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return first
}
