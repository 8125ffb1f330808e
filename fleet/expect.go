package fleet

import (
	"unsafe"

	"github.com/candor-project/candor/internal/prefetch"
)

// ExpectAhead is the best number of calls of Expect from the announcement of a container to its release. After these calls, all
// prefetches are complete.
const ExpectAhead = 4 * expectStep

// NoContainer is the ContainerID of no container.
const NoContainer ContainerID = -1

// expectStep is the number of calls of Expect between the prefetch of a pointer and the prefetch of the memory to which the pointer refers.
// The first prefetch is complete by then.
const expectStep = 3

// expected is a ring buffer of the latest announced containers.
type expected struct {
	containers [ExpectAhead]ContainerID
	count      int // number of calls of Expect
}

// Expect announces a container that will soon be released, which makes the release faster and has no other effect. In a large fleet, most
// nodes and containers are in no CPU cache. Each call prefetches the next part of the memory of the containers that were announced earlier.
// A caller that knows the future, for example from a trace, calls Expect once before each Place or Release. It passes the container that is
// released ExpectAhead calls later, or NoContainer.
func (f *Fleet) Expect(c ContainerID) {
	e := &f.expected
	e.containers[e.count%ExpectAhead] = c
	e.count++
	if c >= 0 && int(c) < len(f.containers) {
		prefetch.Line(unsafe.Pointer(&f.containers[c]))
		if count := len(f.options.Resources); count > 0 {
			prefetch.Line(unsafe.Pointer(&f.amounts[int(c)*count]))
		}
	}
	if id, _ := f.expectedAt(expectStep); id != NoNode {
		f.prefetchNode(id)
	}
	if id, c := f.expectedAt(2 * expectStep); id != NoNode {
		n := &f.nodes[id]
		n.Prefetch()
		prefetch.Line(unsafe.Pointer(&n.containers[f.containers[c].handle]))
	}
	if id, c := f.expectedAt(3 * expectStep); id != NoNode {
		f.nodes[id].PrefetchContainer(f.containers[c].handle)
	}
}

// expectedAt returns the container that was announced the given number of calls ago, and its node.
func (f *Fleet) expectedAt(callsAgo int) (NodeID, ContainerID) {
	e := &f.expected
	if e.count <= callsAgo {
		return NoNode, 0
	}
	c := e.containers[(e.count-1-callsAgo)%ExpectAhead]
	return f.NodeOf(c), c
}

// prefetchNode prefetches the memory of the fleet that describes a node.
func (f *Fleet) prefetchNode(id NodeID) {
	prefetch.Line(unsafe.Pointer(&f.nodes[id]))
	prefetch.Line(unsafe.Pointer(&f.rows[id]))
	f.prefetchQuote(id)
}

// prefetchQuote prefetches the memory from which a search computes a node's score with the node's summary.
func (f *Fleet) prefetchQuote(id NodeID) {
	count := len(f.options.Resources)
	prefetch.Line(unsafe.Pointer(&f.summaries[id]))
	prefetch.Line(unsafe.Pointer(&f.shares[int(id)*(1+count)]))
	if count > 0 {
		prefetch.Line(unsafe.Pointer(&f.free[int(id)*count]))
	}
}

// prefetchPlacement prefetches the memory that a placement on a node changes.
func (f *Fleet) prefetchPlacement(id NodeID) {
	n := &f.nodes[id]
	next := n.NextHandle()
	n.PrefetchContainer(next)
	if int(next) < len(n.containers) {
		prefetch.Line(unsafe.Pointer(&n.containers[next]))
	}
}
