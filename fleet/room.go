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
	for _, k := range f.kinds {
		if shelf := f.shelfFor(k, q.Class); shelf.top != nil && q.admits(k, part{shelf.top, 0}) && f.anyRoom(k, shelf.top.blocks[0]) {
			return hybrid.ErrViewImpossible
		}
	}
	return hybrid.ErrNoCapacity
}

// anyRoom reports whether a node of a block has room for the container.
func (f *Fleet) anyRoom(k *kind, b *block) bool {
	for i := range b.count {
		switch {
		case !f.question.admits(k, part{b, i}):
		case b.blocks == nil && f.hasRoom(b.lowest[i], f.question.Request):
			return true
		case b.blocks != nil && f.anyRoom(k, b.blocks[i]):
			return true
		}
	}
	return false
}
