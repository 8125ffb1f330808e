package fleet

import (
	"math"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// Scan is the oracle of choose: it asks every node.
func (f *Fleet) Scan(r *Request) (NodeID, error) {
	f.setQuery(r)
	if err := f.checkRequest(r); err != nil {
		return NoNode, err
	}
	best, room := candidate{bound: never, lowest: NoNode}, false
	for id := range f.nodes {
		if f.nodes[id].Node == nil || !f.roomOf(NodeID(id), r) {
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

// roomOf asks the node itself and its containers.
func (f *Fleet) roomOf(id NodeID, r *Request) bool {
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

// KeepFew makes searches keep few candidates, until the function that it returns is called.
func KeepFew() func() {
	few, most := targetCandidates, maxCandidates
	targetCandidates, maxCandidates = 4, 12
	return func() { targetCandidates, maxCandidates = few, most }
}

// Same is that of requests.
func Same(a, b *Request) bool { return a.equals(b) }

// CheckIndex holds what the index knows of each node against the node.
func (f *Fleet) CheckIndex(t testing.TB) {
	t.Helper()
	shelved := 0
	for id := range f.nodes {
		if f.nodes[id].Node == nil {
			continue
		}
		var s hybrid.Summary
		f.nodes[id].Summarize(&s)
		if s != f.summaries[id] {
			t.Fatalf("node %d: summary %+v, want %+v", id, f.summaries[id], s)
		}
		f.checkHeld(t, NodeID(id))
		shelved++
	}
	for class, shelf := range f.activeIndexes() {
		found := 0
		for _, tree := range shelf.trees {
			if tree != nil {
				found += f.checkBlock(t, &shelf, tree, math.MinInt64, math.MaxInt64)
			}
		}
		if found != shelved {
			t.Fatalf("%d nodes on the shelves of %v, want %d", found, hybrid.Class(class), shelved)
		}
	}
}

// checkBlock counts the nodes of a block and holds what it keeps of its parts against them.
func (f *Fleet) checkBlock(t testing.TB, s *nodeIndex, b *block, from, to int64) int {
	if b.inner == nil {
		for i, id := range b.lowest[:b.count] {
			if want := f.rowNow(id); f.rows[id] != want || b.keys[i] < from || b.keys[i] >= to {
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

// rowNow returns what the index should keep of a node.
func (f *Fleet) rowNow(id NodeID) row {
	g := f.summaries[id].Figures()
	return f.rowOf(id, &g)
}

// checkHeld holds what a node keeps of its containers against those.
func (f *Fleet) checkHeld(t testing.TB, id NodeID) {
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
