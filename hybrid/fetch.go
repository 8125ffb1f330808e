package hybrid

import (
	"unsafe"

	"github.com/candor-project/candor/internal/prefetch"
)

// Of thousands of nodes most are in no cache, so whoever knows which comes next does well to ask for its memory early. This
// file changes nothing.

// nodeLines are those of a node, and of a small one without its slots.
const nodeLines = int(unsafe.Offsetof(smallNode{}.slots)+prefetch.LineSize-1) / prefetch.LineSize

// Fetch asks for the memory of the node.
func (n *Node) Fetch() { prefetch.Lines(unsafe.Pointer(n), nodeLines) }

// FetchContainer asks for that of a container on it, or of the next one. It has to look at the node.
func (n *Node) FetchContainer(h Handle) {
	if s := int(h) - 1; s >= 0 && s < cap(n.slots) {
		prefetch.Line(unsafe.Pointer(&n.slots[:s+1][s]))
	}
}

// Next returns the handle that the next container gets.
func (n *Node) Next() Handle {
	if n.firstEmpty >= 0 {
		return Handle(n.firstEmpty + 1)
	}
	return Handle(len(n.slots) + 1)
}
