package cluster

import (
	"container/heap"
	"sync/atomic"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// A top-k search finds the best of thousands of nodes and evaluates only a few of them. It computes a lower bound on the rank of each node
// from a small copy of the node's state, and evaluates the nodes in the order of these bounds.

// A NodeRef is a reference to a node, with a copy of its outline. The copy makes a loop over thousands of nodes fast, because such a loop
// mostly waits for memory. A NodeRef is not safe for concurrent use.
type NodeRef struct {
	Amounts
	cluster *Cluster
	node    *node
	changes *atomic.Uint64 // counter of the node's changes
	copied  uint64         // value of changes when the outline was copied
	version uint64         // unique number of the copy
	outline
}

var versions atomic.Uint64

// NodeRef returns a reference to the node with the given name, and adds the node if it is unknown.
func (c *Cluster) NodeRef(name string, a Amounts) NodeRef {
	s := NodeRef{Amounts: a, cluster: c}
	s.copy(c.lockNode(name))
	return s
}

// read copies the outline of the node. If the cluster has forgotten the node, it switches to the new node with the same name.
func (s *NodeRef) read() {
	n := s.node
	if n.mu.Lock(); n.isRetired {
		n.mu.Unlock()
		n = s.cluster.lockNode(n.name)
	}
	s.copy(n)
}

// copy copies the outline of a locked node, and unlocks the node.
func (s *NodeRef) copy(n *node) {
	defer n.mu.Unlock()
	s.node, s.changes = n, n.changes
	s.copied, s.version, s.outline = n.changes.Load(), versions.Add(1), n.outline
}

// bound computes a lower bound on the node's rank for p from the copy of the outline in the NodeRef. isKnown reports whether the bound is
// the exact rank. ok is false if the copy does not suffice, so that the node must be evaluated.
func (s *NodeRef) bound(p *Pod) (lowerBound fleet.Rank, isKnown, ok bool) {
	if !s.isOpen || !p.IsSimple() {
		return 0, false, false
	}
	r := &p.combined.Request
	quote, verdict := s.summary.Quote(r)
	switch verdict {
	case hybrid.Refused:
		return WorstRank, true, true
	case hybrid.Known:
		isKnown = s.summary.IsFlat()
		if !isKnown && r.Class == hybrid.Sensitive {
			quote.NUMAs, quote.L3s = 1, 1 // lower bounds
		}
		return s.rankBy(p, s.Amounts, &quote), isKnown, true
	case hybrid.NotDirect:
		return s.rankBy(p, s.Amounts, &quote), false, true
	default:
		return 0, false, false
	}
}

// IsSimple reports whether the containers of the pod can be planned as a single request without a topology policy. For such a pod, the
// ranks of most nodes can be computed from the outlines of the nodes, without a plan.
func (p *Pod) IsSimple() bool { return p.combined != nil && p.combined.Request.IsPlain() }

// A TopK is a top-k search for the best nodes for a pod. The zero value has no nodes. It is not safe for concurrent use.
type TopK struct {
	pod     *Pod
	cache   *ResultCache
	entries []entry
	bounds  entryHeap
}

// An entry is a node in a search.
type entry struct {
	*NodeRef
	number int
}

// Start starts a search for a pod. No node may hold room for this pod (HeldOn). a is the ResultCache for the requests of this
// pod, with a size of at least the number of nodes.
func (r *TopK) Start(p *Pod, a *ResultCache) { r.pod, r.cache = p, a }

// Add adds a node if the pod can fit on it. number identifies the node in the result of Best and in the ResultCache; it starts at 0 and
// must always identify the same node. The search owns the NodeRef until Best or Stop.
func (r *TopK) Add(number int, s *NodeRef) {
	rank, isKnown := r.cache.bound(number, s, r.pod)
	if rank == WorstRank {
		return
	}
	r.bounds = append(r.bounds, heapItem{rank, int32(len(r.entries)), isKnown})
	r.entries = append(r.entries, entry{s, number})
}

// Len returns the number of added nodes.
func (r *TopK) Len() int { return len(r.entries) }

// maxRefusals is the number of evaluated nodes that can refuse the pod before the search gives up. With more refusals, kube-scheduler's
// parallel evaluation of all nodes is faster.
const maxRefusals = 256

// Best appends the numbers of the best nodes to a list. most is the maximum number of nodes. The nodes are sorted by rank, and then by the
// order in which Add added them. Afterwards the search is empty. ok is false if too many nodes refused the pod.
func (r *TopK) Best(most int, to []int) (best []int, ok bool) {
	defer r.Stop()
	heap.Init(&r.bounds)
	for found, refused := 0, 0; found < most && len(r.bounds) > 0; {
		first := &r.bounds[0]
		e := &r.entries[first.entry]
		switch {
		case first.isKnown:
			to = append(to, e.number)
			found++
			heap.Pop(&r.bounds)
		default:
			if first.rank, first.isKnown = r.cache.rank(e.number, e.NodeRef, r.pod), true; first.rank == WorstRank {
				if refused++; refused > maxRefusals {
					return to, false
				}
				heap.Pop(&r.bounds)
			} else {
				heap.Fix(&r.bounds, 0)
			}
		}
	}
	return to, true
}

// Stop ends a search, and makes it empty.
func (r *TopK) Stop() {
	clear(r.entries)
	*r = TopK{entries: r.entries[:0], bounds: r.bounds[:0]}
}

// An entryHeap is a min-heap of nodes, ordered by the lower bounds of their ranks.
type entryHeap []heapItem

// A heapItem is a node in the heap with a lower bound on its rank.
type heapItem struct {
	rank    fleet.Rank
	entry   int32
	isKnown bool // rank is the exact rank
}

// The following methods implement heap.Interface.
func (o entryHeap) Len() int { return len(o) }

func (o entryHeap) Less(i, j int) bool {
	a, b := &o[i], &o[j]
	return a.rank < b.rank || a.rank == b.rank && a.entry < b.entry
}

func (o entryHeap) Swap(i, j int) { o[i], o[j] = o[j], o[i] }

func (o *entryHeap) Push(x any) { *o = append(*o, x.(heapItem)) }

func (o *entryHeap) Pop() any {
	last := len(*o) - 1
	*o = (*o)[:last]
	return nil
}
