package fleet

import (
	"math/bits"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// hasRoom reports whether a node has the CPU time and the other resources for
// a container, and none of the same Spread.
func (f *Fleet) hasRoom(id NodeID, r *Request) bool {
	return f.hasAmounts(id, r) && !f.isTaken(id, r)
}

// hasAmounts is hasRoom without the Spread, which takes longer to look up.
func (f *Fleet) hasAmounts(id NodeID, r *Request) bool {
	if f.summaries[id].Free(r.Class) < hybrid.Milli(f.question.need) {
		return false
	}
	free := f.freeOf(id)
	for i, amount := range r.Resources {
		if free[i] < amount {
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
	if slices.ContainsFunc(f.shelfFor(q.Class).trees, func(tree *block) bool { return tree != nil && f.anyRoom(tree) }) {
		return hybrid.ErrViewImpossible
	}
	return hybrid.ErrNoCapacity
}

// anyRoom reports whether a node of a block has room for the container.
func (f *Fleet) anyRoom(b *block) bool {
	for parts := f.shelfFor(f.question.Class).admitted(&f.question, b); parts != 0; parts &= parts - 1 {
		i := bits.TrailingZeros32(parts)
		if b.inner == nil && f.hasRoom(b.lowest[i], f.question.Request) || b.inner != nil && f.anyRoom(b.blocks[i]) {
			return true
		}
	}
	return false
}
