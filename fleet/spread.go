package fleet

import (
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// A nodeContainer is a container on a node. If the handle is unused, spread is 0.
type nodeContainer struct {
	spread    uint64 // Request.Spread
	container ContainerID
}

// spreadBits is a Bloom filter of the spreads of a node's containers. If the bit of a spread is clear, no container of the node has this
// spread.
type spreadBits uint64

// spreadBitsOf returns the bit of a spread.
func spreadBitsOf(spread uint64) spreadBits {
	if spread == 0 {
		return 0
	}
	const golden = 0x9e3779b97f4a7c15 // the multiplication distributes the low bits over the high bits
	return 1 << (spread * golden >> 58)
}

// addToNode records a container and its handle in the container's node.
func (f *Fleet) addToNode(c ContainerID, id NodeID, handle hybrid.Handle, spread uint64) {
	n := &f.nodes[id]
	for int(handle) >= len(n.containers) {
		n.containers = append(n.containers, nodeContainer{})
	}
	n.containers[handle] = nodeContainer{spread, c}
	n.spreads |= spreadBitsOf(spread)
}

// removeFromNode reverts addToNode.
func (f *Fleet) removeFromNode(id NodeID, handle hybrid.Handle) {
	n := &f.nodes[id]
	spread := n.containers[handle].spread
	n.containers[handle] = nodeContainer{}
	if spread == 0 {
		return
	}
	n.spreads = 0
	for i := range n.containers {
		n.spreads |= spreadBitsOf(n.containers[i].spread)
	}
}

// hasSpread reports whether a node has a container with the same Spread as a request.
func (f *Fleet) hasSpread(id NodeID, r *Request) bool {
	n := &f.nodes[id]
	if n.spreads&spreadBitsOf(r.Spread) == 0 {
		return false
	}
	return slices.ContainsFunc(n.containers, func(h nodeContainer) bool { return h.spread == r.Spread })
}
