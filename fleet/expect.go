package fleet

import (
	"unsafe"

	"github.com/candor-project/candor/internal/prefetch"
)

// ExpectAhead is the best number of calls of Expect between the announcement of a container and its end.
const ExpectAhead = 4 * expectStep

// NoContainer is no container.
const NoContainer ContainerID = -1

// expectStep is the number of calls of Expect between the prefetch of memory and the prefetch of the memory to which it points. By then the
// first prefetch has completed.
const expectStep = 3

// expected are the containers that were expected last, in a ring.
type expected struct {
	containers [ExpectAhead]ContainerID
	count      int
}

// Expect announces a container that will end soon. It only changes the duration of its release: most of many nodes and containers are in no
// CPU cache, and each call prefetches their memory a step further. A caller that knows future ends, as a trace does, calls it once before
// each Place or Release, with the container that ends ExpectAhead calls later, or with NoContainer.
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

// expectedAt returns the container of an earlier call of Expect, and its node.
func (f *Fleet) expectedAt(callsAgo int) (NodeID, ContainerID) {
	e := &f.expected
	if e.count <= callsAgo {
		return NoNode, 0
	}
	c := e.containers[(e.count-1-callsAgo)%ExpectAhead]
	return f.NodeOf(c), c
}

// prefetchNode prefetches the fleet's data of a node.
func (f *Fleet) prefetchNode(id NodeID) {
	prefetch.Line(unsafe.Pointer(&f.nodes[id]))
	prefetch.Line(unsafe.Pointer(&f.rows[id]))
	f.prefetchQuote(id)
}

// prefetchQuote prefetches the data for a quote of a node.
func (f *Fleet) prefetchQuote(id NodeID) {
	count := len(f.options.Resources)
	prefetch.Line(unsafe.Pointer(&f.summaries[id]))
	prefetch.Line(unsafe.Pointer(&f.shares[int(id)*(1+count)]))
	if count > 0 {
		prefetch.Line(unsafe.Pointer(&f.free[int(id)*count]))
	}
}

// prefetchPlacement prefetches the data that a placement on a node changes.
func (f *Fleet) prefetchPlacement(id NodeID) {
	n := &f.nodes[id]
	next := n.NextHandle()
	n.PrefetchContainer(next)
	if int(next) < len(n.containers) {
		prefetch.Line(unsafe.Pointer(&n.containers[next]))
	}
}
