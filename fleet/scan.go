package fleet

import "github.com/candor-project/candor/hybrid"

// choose finds the best node for the request that ask wrote down.
func (f *Fleet) choose(r *Request) (NodeID, error) {
	best, bestScore, room := Nowhere, never, false
	for id := range f.nodes {
		if !f.hasRoom(NodeID(id), r) {
			continue
		}
		room = true
		quote, err := f.nodes[id].Quote(&f.request)
		if err != nil {
			continue
		}
		if s := f.scoreOf(NodeID(id), r, &quote); s < bestScore {
			best, bestScore = NodeID(id), s
		}
	}
	if best == Nowhere {
		return Nowhere, refusal(r, room)
	}
	return best, nil
}

// hasRoom reports whether a node has the CPU time and the other resources for
// a container, and none of the same Spread.
func (f *Fleet) hasRoom(id NodeID, r *Request) bool {
	n := &f.nodes[id]
	if n.Node == nil || n.Free(r.Class) < f.need(r) {
		return false
	}
	for i, amount := range r.Resources {
		if n.free[i] < amount {
			return false
		}
	}
	if r.Spread != 0 {
		if _, taken := f.spread[spreadKey{r.Spread, id}]; taken {
			return false
		}
	}
	return true
}

// refusal says why a container is nowhere; room tells whether a node had room for it.
func refusal(r *Request, room bool) error {
	if room && r.Class == hybrid.Sensitive && r.Policy == hybrid.Strict {
		return hybrid.ErrViewImpossible
	}
	return hybrid.ErrNoCapacity
}
