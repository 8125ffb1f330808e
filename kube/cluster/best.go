package cluster

import (
	"container/heap"
	"sync/atomic"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// This file is for whoever looks for the best of thousands of nodes: most of them need not be asked,
// as the least that their rank can be follows from what is known of them without.

// A NodeRef is a node, found by its name once and for all, with a copy of what most ranks follow from: whoever goes through thousands
// of them waits for memory most of all. It is for one goroutine.
type NodeRef struct {
	Amounts
	cluster *Cluster
	node    *node
	changes *atomic.Uint64 // of the node
	copied  uint64         // how many there were when the copy was made
	version uint64         // of the copy: no other one has that
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

// IsSimple reports whether one request without a wish says all that the pod asks for. Of such pods most
// ranks are known without asking the nodes.
func (p *Pod) IsSimple() bool { return p.one != nil && p.one.Request.IsPlain() }

// A TopK finds the best of the nodes that run in it. The zero value is one without nodes. It is for
// one goroutine.
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

// Add lets a node run if the pod may fit on it. The number, from 0 on, is what Best calls it, and always that seat. The seat is the
// race's until that ends.
func (r *TopK) Add(number int, s *NodeRef) {
	rank, isKnown := r.answers.bound(number, s, r.pod)
	if rank == WorstRank {
		return
	}
	r.order = append(r.order, place{rank, int32(len(r.runners)), isKnown})
	r.runners = append(r.runners, entry{s, number})
}

// Len is how many nodes run.
func (r *TopK) Len() int { return len(r.runners) }

// mostRefusals are the nodes that are asked in vain before a race is given up: somebody who asks several at once is faster then.
const mostRefusals = 256

// Best appends the numbers of the best nodes to a list, by their rank, and those of the same rank by
// when they entered: so many, or all on which it fits. Then the race is without nodes again. It is not ok if too many
// nodes had to be asked in vain.
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

// A place is where a node stands: no better than by its rank.
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
