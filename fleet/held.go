package fleet

import (
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// heldContainer is a container on a node, or none: then the spread is 0.
type heldContainer struct {
	spread    uint64 // Request.Spread
	container ContainerID
}

// spreadBits is a Bloom filter of the spreads of a node's containers: if the bit of a spread is not set, no container has the spread.
type spreadBits uint64

func spreadBitsOf(spread uint64) spreadBits {
	if spread == 0 {
		return 0
	}
	const golden = 0x9e3779b97f4a7c15 // spreads the bits upwards
	return 1 << (spread * golden >> 58)
}

// addHeld notes that a node has a container, under a handle.
func (f *Fleet) addHeld(c ContainerID, id NodeID, handle hybrid.Handle, spread uint64) {
	n := &f.nodes[id]
	for int(handle) >= len(n.held) {
		n.held = append(n.held, heldContainer{})
	}
	n.held[handle] = heldContainer{spread, c}
	n.spreads |= spreadBitsOf(spread)
}

// removeHeld notes that it has it no more.
func (f *Fleet) removeHeld(id NodeID, handle hybrid.Handle) {
	n := &f.nodes[id]
	spread := n.held[handle].spread
	n.held[handle] = heldContainer{}
	if spread == 0 {
		return
	}
	n.spreads = 0
	for i := range n.held {
		n.spreads |= spreadBitsOf(n.held[i].spread)
	}
}

// hasSpread reports whether a node has a container of the same Spread.
func (f *Fleet) hasSpread(id NodeID, r *Request) bool {
	n := &f.nodes[id]
	if n.spreads&spreadBitsOf(r.Spread) == 0 {
		return false
	}
	return slices.ContainsFunc(n.held, func(h heldContainer) bool { return h.spread == r.Spread })
}
