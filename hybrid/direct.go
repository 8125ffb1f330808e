package hybrid

import (
	"slices"
	"unsafe"

	"github.com/candor-project/candor/internal/prefetch"
)

// Whoever keeps thousands of nodes wants to compare them and to change one, and
// needs no list of the containers whose CPUs change. This file is for those.

// A Cost is what placing or releasing a container changes on a node.
type Cost struct {
	Shared    Milli // shared time that it adds; below 0: that it takes away
	Whole     Milli // what the container gets on exclusive CPUs
	NUMAs     int   // NUMA nodes in which it has CPUs
	L3s       int   // L3 domains in which it has CPUs
	Splits    int   // cores of which it has a part only
	FreeWhole int   // shared CPUs that are left
	Moves     int   // fractions of other containers that change CPU
}

// NewLike returns a node like this one, but without containers. Twins share the memory that they plan
// in: they are for one goroutine, and a plan of one can be used until any of them plans anew.
func (n *Node) NewLike() *Node {
	return newEmpty(n.layout, n.scratch)
}

// Cost returns what a container would cost on the node. The error is one of
// those that a Refusal has as its Kind. It changes nothing.
func (n *Node) Cost(r *Request) (Cost, error) {
	s, cost, err := n.try(r)
	n.undo(0)
	if s >= 0 {
		n.unpromise(s)
		n.dropSlot(s)
	}
	return cost, err
}

// A Handle tells a container from the others on its node, until it ends. 0 is none.
type Handle int32

// Place is Plan and Commit in one. The error is as that of Cost. A container that is placed so may be
// without an id; then only its handle names it.
func (n *Node) Place(r *Request) (Handle, Cost, error) {
	s, cost, err := n.try(r)
	if err != nil {
		n.undo(0)
		if s >= 0 {
			n.unpromise(s)
			n.dropSlot(s)
		}
		return 0, cost, err
	}
	n.version++
	n.link(s)
	n.sharedTime += cost.Shared
	return Handle(s + 1), cost, nil
}

// try gives a new container its CPUs. s is its slot, -1 if it has none.
func (n *Node) try(r *Request) (s int32, cost Cost, err error) {
	n.start()
	if err := n.checkDirect(r); err != nil {
		return -1, Cost{}, err.(*Refusal).Kind
	}
	s = n.newSlot(r)
	n.promise(s)
	if err := n.allocate(s); err != nil {
		return s, Cost{}, err
	}
	n.improveBy(s, s)
	return s, n.costSoFar(s), nil
}

// Remove is PlanRelease and Commit in one. It reports whether the container was there.
func (n *Node) Remove(h Handle) (Cost, bool) {
	s := int32(h) - 1
	if s < 0 || int(s) >= len(n.slots) || !n.slots[s].linked {
		return Cost{}, false
	}
	n.start()
	n.takeAll(s)
	n.unpromise(s)
	n.improveBy(-1, s)
	cost := n.costSoFar(s)
	n.version++
	n.unlink(s)
	n.dropSlot(s)
	n.sharedTime += cost.Shared
	return cost, true
}

// checkDirect refuses requests that cannot be meant.
func (n *Node) checkDirect(r *Request) error {
	if r.ID == "" {
		return r.Check()
	}
	return n.checkRequest(r)
}

// costSoFar returns what the edits so far have changed; own is the container that they are for.
func (n *Node) costSoFar(own int32) Cost {
	slot := &n.slots[own]
	cost := Cost{
		Shared:    n.sharedNow() - n.sharedTime,
		Whole:     Milli(slot.exclusive.Count()) * 1000,
		FreeWhole: int(n.sharedCount),
		Moves:     n.moved(own),
	}
	switch {
	case cost.Whole == 0 && slot.fractions() == 0: // it is in none
	case n.isFlat():
		cost.NUMAs, cost.L3s = 1, 1
	default:
		cpus := slot.cpus()
		cost.NUMAs, cost.L3s = countOverlaps(n.numas, &cpus), countOverlaps(n.l3s, &cpus)
		if n.threads > 1 {
			cost.Splits = n.splitCores(&cpus)
		}
	}
	return cost
}

// isFlat reports whether the machine has one NUMA node and one L3 domain, and one CPU on each core.
func (n *Node) isFlat() bool { return len(n.numas) == 1 && len(n.l3s) == 1 && n.threads == 1 }

// moved counts the fractions of others that are on a CPU where they were not before the edits.
func (n *Node) moved(own int32) int {
	moved := 0
	for i, e := range n.edits {
		if e.slot == own || !e.give || e.milli == 1000 || n.slots[e.slot].fractionOn(int(e.cpu)) == 0 {
			continue
		}
		if !slices.ContainsFunc(n.edits[:i], func(before edit) bool { return before.slot == e.slot && before.cpu == e.cpu }) {
			moved++
		}
	}
	return moved
}

// Len returns how many containers the node has.
func (n *Node) Len() int { return len(n.order) }

// Oldest returns the handle of the container that came first, 0 if there is none.
func (n *Node) Oldest() Handle {
	if len(n.order) == 0 {
		return 0
	}
	return Handle(n.order[0] + 1)
}

// Of thousands of nodes most are in no cache, so whoever knows which comes next does well to ask for its memory early. This
// file changes nothing.

// nodeLines are those of a node, and of a small one without its slots.
const nodeLines = int(unsafe.Offsetof(smallNode{}.slots)+prefetch.LineSize-1) / prefetch.LineSize

// Prefetch asks for the memory of the node.
func (n *Node) Prefetch() { prefetch.Lines(unsafe.Pointer(n), nodeLines) }

// PrefetchContainer asks for that of a container on it, or of the next one. It has to look at the node.
func (n *Node) PrefetchContainer(h Handle) {
	if s := int(h) - 1; s >= 0 && s < cap(n.slots) {
		prefetch.Line(unsafe.Pointer(&n.slots[:s+1][s]))
	}
}

// NextHandle returns the handle that the next container gets.
func (n *Node) NextHandle() Handle {
	if n.firstEmpty >= 0 {
		return Handle(n.firstEmpty + 1)
	}
	return Handle(len(n.slots) + 1)
}
