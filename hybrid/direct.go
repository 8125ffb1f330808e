package hybrid

import (
	"slices"
	"unsafe"

	"github.com/candor-project/candor/internal/prefetch"
)

// This file is for callers that compare thousands of nodes and change one of them. Its functions return
// costs, not lists of the containers whose CPUs change.

// A Cost describes the change of a node when a container is placed or released.
type Cost struct {
	Shared    Milli // added shared time; negative if the shared time falls
	Whole     Milli // CPU time of the container on exclusive CPUs
	NUMAs     int   // NUMA nodes in which the container has CPUs
	L3s       int   // L3 domains in which the container has CPUs
	Splits    int   // cores of which the container has only a part
	FreeWhole int   // remaining shared CPUs
	Moves     int   // number of fractions of other containers that change CPU
}

// NewLike returns an empty node with the same machine and options. Both nodes use the same memory for plans. So use the
// nodes in a single goroutine, and commit or drop a plan before either node plans again.
func (n *Node) NewLike() *Node {
	return newEmpty(n.layout, n.scratch)
}

// Cost returns the cost of placing a container on the node, and changes nothing. The error is a value of
// Refusal.Kind.
func (n *Node) Cost(r *Request) (Cost, error) {
	s, cost, err := n.tryPlace(r)
	n.undo(0)
	if s >= 0 {
		n.subtractFromSums(s)
		n.dropSlot(s)
	}
	return cost, err
}

// A Quote is the cost of a container before the node moves fractions to lower the shared time. Node.Cost
// includes these moves, but takes longer.
type Quote struct {
	Cost        // Moves counts only the moves that make room for the container
	Direct bool // the container fits without moves; under Candor without a confining policy, its view also equals its limit
}

// Quote returns the quote for a container, and changes nothing. The error is a value of Refusal.Kind.
func (n *Node) Quote(r *Request) (q Quote, err error) {
	n.resetScratch()
	if refusal := n.checkDirect(r); refusal != nil {
		return q, refusal.Kind
	}
	s := n.newSlot(r)
	n.addToSums(s)
	direct := n.options.Algorithm == Candor && r.Class == Sensitive && r.IsPlain()
	fits := n.sensitive+n.nodeNeed() <= n.capacity()
	if direct && fits && n.placeDirectlyByKind(s) {
		q = Quote{n.costSoFar(s), true}
	} else if err = n.allocate(s); err == nil {
		q.Cost = n.costSoFar(s)
		q.Direct = q.Moves == 0 && (!direct || n.isHybrid() && n.seesLimit(s))
	}
	n.undo(0)
	n.subtractFromSums(s)
	n.dropSlot(s)
	return q, err
}

// seesLimit reports whether a container sees as many CPUs as its limit, rounded up.
func (n *Node) seesLimit(s int32) bool {
	cpus := n.slots[s].cpus()
	return cpus.Count() == n.slots[s].Limit.CPUs()
}

// A Handle identifies a container on its node until its release. The zero value identifies no container.
type Handle int32

// Place plans the allocation of a container and commits the plan. The error is a value of Refusal.Kind. The request
// need not have an id. Without an id, only the handle identifies the container.
func (n *Node) Place(r *Request) (Handle, Cost, error) {
	s, cost, err := n.tryPlace(r)
	if err != nil {
		n.undo(0)
		if s >= 0 {
			n.subtractFromSums(s)
			n.dropSlot(s)
		}
		return 0, cost, err
	}
	n.version++
	n.link(s)
	n.sharedTime += cost.Shared
	return Handle(s + 1), cost, nil
}

// tryPlace gives a new container its CPUs. s is the container's slot, or -1 if the request is invalid. The
// caller must undo the edits or link the slot.
func (n *Node) tryPlace(r *Request) (s int32, cost Cost, err error) {
	n.resetScratch()
	if refusal := n.checkDirect(r); refusal != nil {
		return -1, Cost{}, refusal.Kind
	}
	s = n.newSlot(r)
	n.addToSums(s)
	if err := n.allocate(s); err != nil {
		return s, Cost{}, err
	}
	n.improveWithin(s, s)
	return s, n.costSoFar(s), nil
}

// Remove plans the release of a container and commits the plan. It reports whether the container existed.
func (n *Node) Remove(h Handle) (Cost, bool) {
	s := int32(h) - 1
	if s < 0 || int(s) >= len(n.slots) || !n.slots[s].isLinked {
		return Cost{}, false
	}
	n.resetScratch()
	n.takeAll(s)
	n.subtractFromSums(s)
	n.improveWithin(-1, s)
	cost := n.costSoFar(s)
	n.version++
	n.unlink(s)
	n.dropSlot(s)
	n.sharedTime += cost.Shared
	return cost, true
}

// checkDirect returns a refusal if the request is invalid. The request may have no id.
func (n *Node) checkDirect(r *Request) *Refusal {
	if r.ID == "" {
		return r.check()
	}
	return n.checkRequest(r)
}

// costSoFar returns the cost of the edits so far. own is the slot of the container that is placed or released.
func (n *Node) costSoFar(own int32) Cost {
	slot := &n.slots[own]
	cost := Cost{
		Shared:    n.currentShared() - n.sharedTime,
		Whole:     Milli(slot.exclusive.Count()) * 1000,
		FreeWhole: int(n.sharedCount),
		Moves:     n.countMovedFractions(own),
	}
	switch {
	case cost.Whole == 0 && slot.fractions() == 0: // the container is in no domain
	case n.isFlat():
		cost.NUMAs, cost.L3s = 1, 1
	default:
		cpus := slot.cpus()
		cost.NUMAs, cost.L3s = countOverlaps(n.numas, &cpus), countOverlaps(n.l3s, &cpus)
		if n.maxThreads > 1 {
			cost.Splits = n.splitCores(&cpus)
		}
	}
	return cost
}

// isFlat reports whether the machine has a single NUMA node, a single L3 domain, and one CPU per core.
func (n *Node) isFlat() bool { return len(n.numas) == 1 && len(n.l3s) == 1 && n.maxThreads == 1 }

// countMovedFractions counts the fractions of other containers that the edits put on CPUs where these fractions were
// not before.
func (n *Node) countMovedFractions(own int32) int {
	moved := 0
	for i, e := range n.edits {
		if e.slot == own || !e.isGive || e.milli == 1000 || n.slots[e.slot].fractionOn(int(e.cpu)) == 0 {
			continue
		}
		if !slices.ContainsFunc(n.edits[:i], func(before edit) bool { return before.slot == e.slot && before.cpu == e.cpu }) {
			moved++
		}
	}
	return moved
}

// Len returns the number of containers on the node.
func (n *Node) Len() int { return len(n.order) }

// Oldest returns the handle of the container that arrived first, or 0 if the node is empty.
func (n *Node) Oldest() Handle {
	if len(n.order) == 0 {
		return 0
	}
	return Handle(n.order[0] + 1)
}

// The functions below prefetch memory and change nothing. With thousands of nodes, most nodes are in no CPU
// cache, so a caller that knows the next node should prefetch it early.

// nodeLines is the number of cache lines of a smallNode, without the slots.
const nodeLines = int(unsafe.Offsetof(smallNode{}.slots)+prefetch.LineSize-1) / prefetch.LineSize

// Prefetch prefetches the node, without its containers.
func (n *Node) Prefetch() { prefetch.Lines(unsafe.Pointer(n), nodeLines) }

// PrefetchContainer prefetches a container or, for the result of NextHandle, the memory of the next container.
// It reads the node, so call Prefetch before.
func (n *Node) PrefetchContainer(h Handle) {
	if s := int(h) - 1; s >= 0 && s < cap(n.slots) {
		prefetch.Line(unsafe.Pointer(&n.slots[:s+1][s]))
	}
}

// NextHandle returns the handle that the next placed container gets.
func (n *Node) NextHandle() Handle {
	if n.firstEmpty >= 0 {
		return Handle(n.firstEmpty + 1)
	}
	return Handle(len(n.slots) + 1)
}
