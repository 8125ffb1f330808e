package fleet

import (
	"math/bits"

	"github.com/candor-project/candor/hybrid"
)

// hasRoom reports whether a node has the CPU time and the other resources for
// a container, and none of the same Spread.
func (f *Fleet) hasRoom(id NodeID, r *Request) bool {
	return f.hasAmounts(id, r) && !f.isTaken(id, r)
}

// hasAmounts is hasRoom without the Spread, whose lookup takes longer.
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

// refusal returns the reason why no node takes the question's container.
func (f *Fleet) refusal(a *answer) error {
	if f.question.Class == hybrid.Flexible || !f.question.strict || !f.anyRoom(a) {
		return hybrid.ErrNoCapacity
	}
	return hybrid.ErrViewImpossible
}

// anyRoom reports whether a node has room for the container. Refusals repeat, as questions do: so the answer caches the node that had room
// the last time, or the number of changes after which no node had room.
func (f *Fleet) anyRoom(a *answer) bool {
	if f.has(a.roomy) && f.hasRoom(a.roomy, f.question.Request) {
		return true
	}
	if f.recent.changes-a.roomless <= recentChanges {
		a.roomy = f.roomySince(a.roomless)
	} else {
		a.roomy = f.roomyOnShelf()
	}
	if a.roomy == NoNode {
		a.roomless = f.recent.changes
	}
	return a.roomy != NoNode
}

// roomySince returns a node with room for the container among the nodes that have changed since a number of changes, or NoNode. At most
// recentChanges can have happened since.
func (f *Fleet) roomySince(changes int64) NodeID {
	for ; changes < f.recent.changes; changes++ {
		if id := f.recent.changed[changes%recentChanges].id; f.has(id) && f.hasRoom(id, f.question.Request) {
			return id
		}
	}
	return NoNode
}

// roomyOnShelf returns a node with room for the container, or Nowhere.
func (f *Fleet) roomyOnShelf() NodeID {
	for _, tree := range f.shelfFor(f.question.Class).trees {
		if tree == nil {
			continue
		}
		if id := f.roomyIn(tree); id != NoNode {
			return id
		}
	}
	return NoNode
}

// roomyIn returns a node of a block with room for the container, or Nowhere.
func (f *Fleet) roomyIn(b *block) NodeID {
	for parts := f.shelfFor(f.question.Class).admitted(&f.question, b); parts != 0; parts &= parts - 1 {
		i := bits.TrailingZeros32(parts)
		switch {
		case b.inner != nil:
			if id := f.roomyIn(b.blocks[i]); id != NoNode {
				return id
			}
		case f.hasRoom(b.lowest[i], f.question.Request):
			return b.lowest[i]
		}
	}
	return NoNode
}
