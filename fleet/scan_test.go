package fleet

import (
	"math"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// Scan is the oracle for Choose. It evaluates every node.
func (f *Fleet) Scan(r *Request) (NodeID, error) {
	f.setQuery(r)
	if err := f.checkRequest(r); err != nil {
		return NoNode, err
	}
	best, room := candidate{bound: never, lowest: NoNode}, false
	for id := range f.nodes {
		if f.nodes[id].Node == nil || !f.nodeHasRoom(NodeID(id), r) {
			continue
		}
		room = true
		if quote, err := f.nodes[id].Quote(&f.request); err == nil {
			if c := (candidate{bound: f.scoreOf(NodeID(id), &quote), lowest: NodeID(id)}); c.before(&best) {
				best = c
			}
		}
	}
	switch {
	case best.bound != never:
		return best.lowest, nil
	case room && r.Class == hybrid.Sensitive && r.Policy == hybrid.Strict:
		return NoNode, hybrid.ErrViewImpossible
	default:
		return NoNode, hybrid.ErrNoCapacity
	}
}

// nodeHasRoom is hasRoom without the fleet's copies of the node's data.
func (f *Fleet) nodeHasRoom(id NodeID, r *Request) bool {
	n := &f.nodes[id]
	left := append([]int64(nil), f.kinds[n.kind].capacity...)
	for handle, h := range n.containers {
		own := &f.containers[h.container]
		if own.node != id || int(own.handle) != handle { // it has ended, or there was none
			continue
		}
		if r.Spread != 0 && own.request.Spread == r.Spread {
			return false
		}
		for i, amount := range f.amountsOf(h.container) {
			left[i] -= amount
		}
	}
	for i, amount := range r.Resources {
		if left[i] < amount {
			return false
		}
	}
	return n.Free(r.Class) >= f.request.Guaranteed()
}

// LimitCandidates makes searches retain few candidates until the test calls the returned function.
func LimitCandidates() func() {
	few, most := targetCandidates, maxCandidates
	targetCandidates, maxCandidates = 4, 12
	return func() { targetCandidates, maxCandidates = few, most }
}

// RequestsEqual exports Request.equals.
func RequestsEqual(a, b *Request) bool { return a.equals(b) }

// CheckIndex compares the index with the nodes.
func (f *Fleet) CheckIndex(t testing.TB) {
	t.Helper()
	indexed := 0
	for id := range f.nodes {
		if f.nodes[id].Node == nil {
			continue
		}
		var s hybrid.Summary
		f.nodes[id].Summarize(&s)
		if s != f.summaries[id] {
			t.Fatalf("node %d: summary %+v, want %+v", id, f.summaries[id], s)
		}
		f.checkContainers(t, NodeID(id))
		indexed++
	}
	for class, index := range f.activeIndexes() {
		found := 0
		for _, tree := range index.trees {
			if tree != nil {
				found += f.checkBlock(t, &index, tree, math.MinInt64, math.MaxInt64)
			}
		}
		if found != indexed {
			t.Fatalf("%d nodes in the index of %v, want %d", found, hybrid.Class(class), indexed)
		}
	}
}

// checkBlock compares the rows of a block with the nodes below the block, and returns the number of nodes.
func (f *Fleet) checkBlock(t testing.TB, s *nodeIndex, b *block, from, to int64) int {
	if b.inner == nil {
		for i, id := range b.lowest[:b.count] {
			if want := f.wantRow(id); f.rows[id] != want || b.keys[i] < from || b.keys[i] >= to {
				t.Fatalf("node %d: row %v, want %v; key %d of %d to %d", id, f.rows[id], want, b.keys[i], from, to)
			}
		}
		return b.count
	}
	found := 0
	for i := range b.count {
		kept, loose, lowest := b.rows[i], b.blocks[i].loose, b.lowest[i]
		first, next := from, to
		if i > 0 {
			first = b.keys[i]
		}
		if i+1 < b.count {
			next = b.keys[i+1]
		}
		b.blocks[i].loose = allFields
		s.tighten(b, i)
		tight := b.rows[i]
		if kept.include(&tight) || lowest > b.lowest[i] {
			t.Fatalf("a row does not tell of all in its block: %v, want %v; lowest %d, want %d", kept, tight, lowest, b.lowest[i])
		}
		if promises := kept.diff(&tight); promises&^loose != 0 || lowest != b.lowest[i] && loose&lowestField == 0 {
			t.Fatalf("a row promises too much: %v, want %v; lowest %d, want %d", kept, tight, lowest, b.lowest[i])
		}
		found += f.checkBlock(t, s, b.blocks[i], first, next)
	}
	return found
}

// wantRow computes the row that the index should have for a node.
func (f *Fleet) wantRow(id NodeID) row {
	g := f.summaries[id].Figures()
	return f.rowOf(id, &g)
}

// checkContainers compares the containers in the fleet's data of a node with the containers of the node.
func (f *Fleet) checkContainers(t testing.TB, id NodeID) {
	t.Helper()
	n, count, spreads := &f.nodes[id], 0, spreadBits(0)
	for c := range f.containers {
		own := &f.containers[c]
		if own.node != id {
			continue
		}
		count++
		spreads |= spreadBitsOf(own.request.Spread)
		if got, want := n.containers[own.handle], (nodeContainer{own.request.Spread, ContainerID(c)}); got != want {
			t.Fatalf("node %d: %+v under handle %d, want %+v", id, got, own.handle, want)
		}
	}
	if n.Len() != count || n.spreads != spreads {
		t.Fatalf("node %d: %d containers with spreads %x, want %d with %x", id, n.Len(), n.spreads, count, spreads)
	}
}
