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
	best, room := finding{Nowhere, never}, false
	for id := range f.nodes {
		if f.nodes[id].Node == nil || !f.roomOf(NodeID(id), r) {
			continue
		}
		room = true
		if quote, err := f.nodes[id].Quote(&f.request); err == nil {
			if s := f.scoreOf(NodeID(id), r, &quote); s < best.score {
				best = finding{NodeID(id), s}
			}
		}
	}
	switch {
	case best.id != Nowhere:
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
	found := 0
	for k := range f.kinds {
		for _, b := range f.kinds[k].shelves[0].blocks {
			found += b.count
		}
	}
	if found != shelved {
		t.Fatalf("%d nodes on shelves, want %d", found, shelved)
	}
}
