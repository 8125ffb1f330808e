package fleet

import "slices"

// held is a container on a node.
type held struct {
	spread    uint64 // Request.Spread
	container ContainerID
}

// spreadBits are the spreads of a node's containers: a bit for some of all there can be. Where the bit of one is not
// set, no container has it.
type spreadBits uint64

func spreadBitsOf(spread uint64) spreadBits {
	if spread == 0 {
		return 0
	}
	const golden = 0x9e3779b97f4a7c15 // spreads the bits upwards
	return 1 << (spread * golden >> 58)
}

// hold enters a container at the end of a node's list.
func (f *Fleet) hold(c ContainerID, id NodeID, spread uint64) {
	n := &f.nodes[id]
	n.held = append(n.held, held{spread, c})
	f.spreads[id] |= spreadBitsOf(spread)
}

// letGo takes a container out of a node's list.
func (f *Fleet) letGo(c ContainerID, id NodeID) {
	n := &f.nodes[id]
	at := slices.IndexFunc(n.held, func(h held) bool { return h.container == c })
	spread := n.held[at].spread
	n.held = slices.Delete(n.held, at, at+1)
	if spread == 0 {
		return
	}
	f.spreads[id] = 0
	for i := range n.held {
		f.spreads[id] |= spreadBitsOf(n.held[i].spread)
	}
}

// isTaken reports whether a node has a container of the same Spread.
func (f *Fleet) isTaken(id NodeID, r *Request) bool {
	if f.spreads[id]&spreadBitsOf(r.Spread) == 0 {
		return false
	}
	return slices.ContainsFunc(f.nodes[id].held, func(h held) bool { return h.spread == r.Spread })
}
