package fleet

import (
	"math/bits"

	"github.com/candor-project/candor/hybrid"
)

// hasRoom reports whether a node has the CPU time and the further resources for the current request, and no container with the request's
// Spread.
func (f *Fleet) hasRoom(id NodeID, r *Request) bool {
	return f.hasAmounts(id, r) && !f.hasSpread(id, r)
}

// hasAmounts is like hasRoom, but ignores the Spread, which takes longer to check.
func (f *Fleet) hasAmounts(id NodeID, r *Request) bool {
	if f.summaries[id].Free(r.Class) < hybrid.Milli(f.query.guaranteed) {
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

// refusal returns the reason why no node can take the container.
func (f *Fleet) refusal(s *searchState) error {
	if f.query.Class == hybrid.Flexible || !f.query.isStrict || !f.hasAnyRoom(s) {
		return hybrid.ErrNoCapacity
	}
	return hybrid.ErrViewImpossible
}

// hasAnyRoom reports whether a node has room for the container, even if the node lacks CPUs for the container's view. Queries repeat, and
// so do their refusals. So the search state caches the last node with room, or the number of changes at which no node had room.
func (f *Fleet) hasAnyRoom(s *searchState) bool {
	if f.hasNode(s.roomyNode) && f.hasRoom(s.roomyNode, f.query.Request) {
		return true
	}
	if f.searches.changes-s.noRoomChanges <= maxChanges {
		s.roomyNode = f.findRoomSince(s.noRoomChanges)
	} else {
		s.roomyNode = f.findRoom()
	}
	if s.roomyNode == NoNode {
		s.noRoomChanges = f.searches.changes
	}
	return s.roomyNode != NoNode
}

// findRoomSince returns a node with room for the container among the nodes that have changed after the given value of searchCache.changes,
// or NoNode. At most maxChanges changes may have happened since.
func (f *Fleet) findRoomSince(changes int64) NodeID {
	for ; changes < f.searches.changes; changes++ {
		if id := f.searches.changed[changes%maxChanges].id; f.hasNode(id) && f.hasRoom(id, f.query.Request) {
			return id
		}
	}
	return NoNode
}

// findRoom returns a node with room for the container, or NoNode.
func (f *Fleet) findRoom() NodeID {
	for _, tree := range f.indexFor(f.query.Class).trees {
		if tree == nil {
			continue
		}
		if id := f.findRoomIn(tree); id != NoNode {
			return id
		}
	}
	return NoNode
}

// findRoomIn returns a node with room for the container below the block b, or NoNode.
func (f *Fleet) findRoomIn(b *block) NodeID {
	for children := f.indexFor(f.query.Class).admitted(&f.query, b); children != 0; children &= children - 1 {
		i := bits.TrailingZeros32(children)
		switch {
		case b.inner != nil:
			if id := f.findRoomIn(b.blocks[i]); id != NoNode {
				return id
			}
		case f.hasRoom(b.lowest[i], f.query.Request):
			return b.lowest[i]
		}
	}
	return NoNode
}
