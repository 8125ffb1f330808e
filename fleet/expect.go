package fleet

import (
	"unsafe"

	"github.com/candor-project/candor/internal/prefetch"
)

// ExpectAhead is how many calls of Expect before its end a container is best expected.
const ExpectAhead = 4 * expectStep

// NoContainer is no container.
const NoContainer ContainerID = -1

// expectStep is by how many calls of Expect later what the memory that was asked for points to is asked for. Then that has come.
const expectStep = 3

// expected are the containers that were expected last, in a ring.
type expected struct {
	containers [ExpectAhead]ContainerID
	count      int
}

// Expect tells which container will end soon. That changes nothing but how long its end takes: of many
// nodes and containers most are in no cache, and their memory is asked for meanwhile, a step further with each call. So
// whoever knows what will come, as a trace does, calls it once before each Place or Release, with the container that ends
// Ahead of those later, or with Nobody.
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
		f.fetchNode(id)
	}
	if id, c := f.expectedAt(2 * expectStep); id != NoNode {
		n := &f.nodes[id]
		n.Prefetch()
		prefetch.Line(unsafe.Pointer(&n.held[f.containers[c].handle]))
	}
	if id, c := f.expectedAt(3 * expectStep); id != NoNode {
		f.nodes[id].PrefetchContainer(f.containers[c].handle)
	}
}

// expectedAt returns the container that was expected so many calls before, and its node.
func (f *Fleet) expectedAt(before int) (NodeID, ContainerID) {
	e := &f.expected
	if e.count <= before {
		return NoNode, 0
	}
	c := e.containers[(e.count-1-before)%ExpectAhead]
	return f.NodeOf(c), c
}

// fetchNode asks for what the fleet itself keeps of a node.
func (f *Fleet) fetchNode(id NodeID) {
	prefetch.Line(unsafe.Pointer(&f.nodes[id]))
	prefetch.Line(unsafe.Pointer(&f.rows[id]))
	f.fetchQuote(id)
}

// fetchQuote asks for what tells of a container's place on a node.
func (f *Fleet) fetchQuote(id NodeID) {
	count := len(f.options.Resources)
	prefetch.Line(unsafe.Pointer(&f.summaries[id]))
	prefetch.Line(unsafe.Pointer(&f.shares[int(id)*(1+count)]))
	if count > 0 {
		prefetch.Line(unsafe.Pointer(&f.free[int(id)*count]))
	}
}

// fetchPlace asks for what a container changes on a node that it is about to be placed on.
func (f *Fleet) fetchPlace(id NodeID) {
	n := &f.nodes[id]
	next := n.NextHandle()
	n.PrefetchContainer(next)
	if int(next) < len(n.held) {
		prefetch.Line(unsafe.Pointer(&n.held[next]))
	}
}
