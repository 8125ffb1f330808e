package fleet

import "github.com/candor-project/candor/hybrid"

// hasRoom reports whether a node has the CPU time and the other resources for
// a container, and none of the same Spread.
func (f *Fleet) hasRoom(id NodeID, r *Request) bool {
	if f.figures[id].Free[r.Class] < f.question.need {
		return false
	}
	free := f.freeOf(id)
	for i, amount := range r.Resources {
		if free[i] < amount {
			return false
		}
	}
	if r.Spread == 0 {
		return true
	}
	_, taken := f.spread[spreadKey{r.Spread, id}]
	return !taken
}

// within reports whether an empty node of a kind has the further resources.
func (q *question) within(k *kind) bool {
	for i, amount := range q.Resources {
		if amount > k.capacity[i] {
			return false
		}
	}
	return true
}

// refusal says why the container of the question is nowhere.
func (f *Fleet) refusal() error {
	q := &f.question
	if q.Class == hybrid.Flexible || !q.strict {
		return hybrid.ErrNoCapacity
	}
	for k := range f.kinds {
		shelf := f.shelfFor(f.kinds[k], q.Class)
		if shelf.root != nil && q.admits(&shelf.cover) && f.anyRoom(shelf.root) {
			return hybrid.ErrViewImpossible
		}
	}
	return hybrid.ErrNoCapacity
}

// anyRoom reports whether a node of a block has room for the container.
func (f *Fleet) anyRoom(b *block) bool {
	for i := range b.count {
		switch {
		case b.inner == nil:
			if f.hasRoom(b.items[i].id, f.question.Request) {
				return true
			}
		case f.question.admits(&b.inner.covers[i]) && f.anyRoom(b.inner.blocks[i]):
			return true
		}
	}
	return false
}
