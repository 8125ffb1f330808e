package cluster

import (
	"container/heap"
	"sync/atomic"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// The code below finds the best of thousands of nodes without evaluating most of them: a lower bound of a node's rank follows from a small
// copy of its state.

// A NodeRef is a node, looked up by its name once, with a copy of the state from which most ranks follow: a loop over thousands of nodes
// mostly waits for memory. It is for one goroutine.
type NodeRef struct {
	Amounts
	cluster *Cluster
	node    *node
	changes *atomic.Uint64 // of the node
	copied  uint64         // changes at the time of the copy
	version uint64         // unique version of the copy
	outline
}

var versions atomic.Uint64

// NodeRef returns the node of a name, whether anything is known of it or not.
func (c *Cluster) NodeRef(name string, a Amounts) NodeRef {
	s := NodeRef{Amounts: a, cluster: c}
	s.copy(c.lockNode(name))
	return s
}

// read copies the figures of the node, or of its successor.
func (s *NodeRef) read() {
	n := s.node
	if n.mu.Lock(); n.hasEnded {
		n.mu.Unlock()
		n = s.cluster.lockNode(n.name)
	}
	s.copy(n)
}

// copy copies the figures of a locked node, and unlocks it.
func (s *NodeRef) copy(n *node) {
	defer n.mu.Unlock()
	s.node, s.changes = n, n.changes
	s.copied, s.version, s.outline = n.changes.Load(), versions.Add(1), n.outline
}

// bound returns the least that the node's rank for a pod can be, by the copy, and whether it is that. It is not ok where
// the node has to be asked.
func (s *NodeRef) bound(p *Pod) (least fleet.Rank, isKnown, ok bool) {
	if !s.isOpen || !p.IsSimple() {
		return 0, false, false
	}
	r := &p.one.Request
	quote, verdict := s.summary.Quote(r)
	switch verdict {
	case hybrid.Refused:
		return WorstRank, true, true
	case hybrid.Known:
		isKnown = s.summary.IsFlat()
		if !isKnown && r.Class == hybrid.Sensitive {
			quote.NUMAs, quote.L3s = 1, 1 // at least
		}
		return s.rankBy(p, s.Amounts, &quote), isKnown, true
	case hybrid.NotDirect:
		return s.rankBy(p, s.Amounts, &quote), false, true
	default:
		return 0, false, false
	}
}

// IsSimple reports whether a single request without a topology policy is the pod's whole demand. Most ranks of such pods follow from the
// copies of the nodes.
func (p *Pod) IsSimple() bool { return p.one != nil && p.one.Request.IsPlain() }

// A TopK is a top-k search for the best nodes. The zero value has no nodes. It is for one goroutine.
type TopK struct {
	pod     *Pod
	answers *ResultCache
	runners []entry
	order   order
}

// A entry is a node in a race.
type entry struct {
	*NodeRef
	number int
}

// Start begins a race for a pod that waits for no room (HeldOn). The answers are those for pods that ask for the same, of
// as many nodes as can enter.
func (r *TopK) Start(p *Pod, a *ResultCache) { r.pod, r.answers = p, a }

// Add adds a node if the pod can fit on it. Best returns the number, from 0 on, which must always denote the same node. The search owns
// the NodeRef until it ends.
func (r *TopK) Add(number int, s *NodeRef) {
	rank, isKnown := r.answers.bound(number, s, r.pod)
	if rank == WorstRank {
		return
	}
	r.order = append(r.order, place{rank, int32(len(r.runners)), isKnown})
	r.runners = append(r.runners, entry{s, number})
}

// Len returns the number of nodes.
func (r *TopK) Len() int { return len(r.runners) }

// mostRefusals bounds the refused nodes before a search stops: a parallel evaluation is faster then.
const mostRefusals = 256

// Best appends the numbers of the best nodes to a list, by rank and then by the order of their addition: at most the given number, or all
// nodes on which the pod fits. Then the search is empty again. ok is false if too many nodes refused the pod.
func (r *TopK) Best(most int, to []int) (best []int, ok bool) {
	defer r.Stop()
	heap.Init(&r.order)
	for found, refused := 0, 0; found < most && len(r.order) > 0; {
		first := &r.order[0]
		one := &r.runners[first.runner]
		switch {
		case first.isKnown:
			to = append(to, one.number)
			found++
			heap.Pop(&r.order)
		default:
			if first.rank, first.isKnown = r.answers.rank(one.number, one.NodeRef, r.pod), true; first.rank == WorstRank {
				if refused++; refused > mostRefusals {
					return to, false
				}
				heap.Pop(&r.order)
			} else {
				heap.Fix(&r.order, 0)
			}
		}
	}
	return to, true
}

// Stop ends a race without a result.
func (r *TopK) Stop() {
	clear(r.runners)
	*r = TopK{runners: r.runners[:0], order: r.order[:0]}
}

// An order is a heap of places: the least comes first.
type order []place

// A place is a node in the heap with a lower bound of its rank.
type place struct {
	rank    fleet.Rank
	runner  int32
	isKnown bool // it is no worse, either
}

// Len implements heap.Interface, as the following do.
func (o order) Len() int { return len(o) }

func (o order) Less(i, j int) bool {
	a, b := &o[i], &o[j]
	return a.rank < b.rank || a.rank == b.rank && a.runner < b.runner
}

func (o order) Swap(i, j int) { o[i], o[j] = o[j], o[i] }

func (o *order) Push(x any) { *o = append(*o, x.(place)) }

func (o *order) Pop() any {
	last := len(*o) - 1
	*o = (*o)[:last]
	return nil
}
