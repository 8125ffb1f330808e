package fleet

import (
	"math"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// Scan is the oracle of choose: it asks every node.
func (f *Fleet) Scan(r *Request) (NodeID, error) {
	f.ask(r)
	if err := f.check(r); err != nil {
		return Nowhere, err
	}
	f.askSizes()
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
	for class, shelf := range f.shelvesOf() {
		found := 0
		if shelf.top != nil {
			found = f.checkBlock(t, &shelf, shelf.top, math.MinInt64, math.MaxInt64)
		}
		if found != shelved {
			t.Fatalf("%d nodes on the shelves of %v, want %d", found, hybrid.Class(class), shelved)
		}
	}
}

// checkBlock counts the nodes of a block and holds what it keeps of its parts against them.
func (f *Fleet) checkBlock(t testing.TB, s *shelf, b *block, from, to int64) int {
	found := 0
	for i := range b.count {
		kept := b.rows[i].traits
		if b.blocks == nil {
			want := f.traitsOf(b.lowest[i])
			if size := f.kinds[f.nodes[b.lowest[i]].kind].size; b.rows[i].size != size {
				t.Fatalf("node %d: size %d, want %d", b.lowest[i], b.rows[i].size, size)
			}
			if kept != want || b.keys[i] < from || b.keys[i] >= to {
				t.Fatalf("node %d: traits %v, want %v; key %d of %d to %d", b.lowest[i], kept, want, b.keys[i], from, to)
			}
			found++
			continue
		}
		below, loose, lowest := b.blocks[i], b.loose[i], b.lowest[i]
		first, next := from, to
		if i > 0 {
			first = b.keys[i]
		}
		if i+1 < b.count {
			next = b.keys[i+1]
		}
		size := b.rows[i].size
		s.count(b, i)
		if size != anySize && size != b.rows[i].size {
			t.Fatalf("a block of size %d, want %d", size, b.rows[i].size)
		}
		if lowest != b.lowest[i] && (lowest > b.lowest[i] || loose&(1<<figureLowest) == 0) {
			t.Fatalf("lowest %d, want %d", lowest, b.lowest[i])
		}
		for j := range s.traits {
			if tight := b.rows[i].traits[j]; kept[j] != tight && (kept[j] < tight || loose&(1<<j) == 0) {
				t.Fatalf("trait %d is %d, want %d", j, kept[j], tight)
			}
		}
		found += f.checkBlock(t, s, below, first, next)
	}
	return found
}
