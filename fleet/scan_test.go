package fleet

import (
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// Scan is the oracle of choose: it asks every node.
func (f *Fleet) Scan(r *Request) (NodeID, error) {
	f.ask(r)
	if err := f.check(r); err != nil {
		return Nowhere, err
	}
	f.askKinds()
	best, room := finding{never, Nowhere}, false
	for id := range f.nodes {
		if f.nodes[id].Node == nil || !f.roomOf(NodeID(id), r) {
			continue
		}
		room = true
		if quote, err := f.nodes[id].Quote(&f.request); err == nil {
			if s := f.scoreOf(NodeID(id), r, &quote); best.yields(s, NodeID(id)) {
				best = finding{s, NodeID(id)}
			}
		}
	}
	switch {
	case best.score != never:
		return best.id, nil
	case room && r.Class == hybrid.Sensitive && r.Policy == hybrid.Strict:
		return Nowhere, hybrid.ErrViewImpossible
	default:
		return Nowhere, hybrid.ErrNoCapacity
	}
}

// roomOf asks the node itself and its containers.
func (f *Fleet) roomOf(id NodeID, r *Request) bool {
	n := &f.nodes[id]
	left := append([]int64(nil), f.kinds[n.kind].capacity...)
	for c := n.first; c >= 0; c = f.containers[c].next {
		own := &f.containers[c].request
		if r.Spread != 0 && own.Spread == r.Spread {
			return false
		}
		for i, amount := range own.Resources {
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
		if s != f.summaries[id] || s.Figures() != f.figures[id] {
			t.Fatalf("node %d: summary %+v, want %+v", id, f.summaries[id], s)
		}
		shelved++
	}
	for class := range f.shelves(&kind{}) {
		found := 0
		for k := range f.kinds {
			found += f.checkBlock(t, f.kinds[k].shelves[class].root)
		}
		if found != shelved {
			t.Fatalf("%d nodes on the shelves of %v, want %d", found, hybrid.Class(class), shelved)
		}
	}
}

// checkBlock counts the nodes of a block and holds covers against them.
func (f *Fleet) checkBlock(t testing.TB, b *block) int {
	if b == nil {
		return 0
	}
	if b.inner == nil {
		for _, it := range b.items[:b.count] {
			if it.free != f.figures[it.id].Free[hybrid.Flexible] {
				t.Fatalf("%v on a shelf, %v", it, f.figures[it.id])
			}
		}
		return b.count
	}
	found := 0
	for i := range b.count {
		part, c := b.inner.blocks[i], b.inner.covers[i]
		if a, b := b.items[i], part.items[0]; a.key != b.key || a.id != b.id {
			t.Fatalf("a block begins with %v, its parent says %v", b, a)
		}
		tight := f.coverOf(part)
		tight.loose = c.loose
		if !c.loose && part.inner == nil && c != tight {
			t.Fatalf("cover %+v, want %+v", c, tight)
		}
		found += f.checkBlock(t, part)
	}
	return found
}
