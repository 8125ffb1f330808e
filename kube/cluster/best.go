package cluster

import (
	"container/heap"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// This file is for whoever looks for the best of thousands of nodes: most of them need not be asked,
// as the least that their rank can be follows from what is known of them without.

// A Seat is a node, found by its name once and for all.
type Seat struct {
	node *node
}

// Seat returns the node of a name, whether anything is known of it or not.
func (c *Cluster) Seat(name string) Seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Seat{c.node(name)}
}

// IsSimple reports whether one request without a wish says all that the pod asks for. Of such pods most
// ranks are known without asking the nodes.
func (p *Pod) IsSimple() bool { return p.one != nil && p.one.Request.IsPlain() }

// A Race finds the best of the nodes that run in it. The zero value is one without nodes. It is for
// one goroutine.
type Race struct {
	runners []runner
	order   []place // a heap: the least first
}

// A runner is a node in a race.
type runner struct {
	Seat
	Amounts
	number int
}

// A place is where a node stands: no better than by its rank.
type place struct {
	rank    fleet.Rank
	runner  int32
	isKnown bool // it is no worse, either
}

// Enter lets a node run if a pod may fit on it that waits for no room (HeldOn). The number is what Best calls it.
func (r *Race) Enter(number int, s Seat, p *Pod, a Amounts) {
	rank, isKnown := s.node.bound(p, a)
	if rank == WorstRank {
		return
	}
	r.order = append(r.order, place{rank, int32(len(r.runners)), isKnown})
	r.runners = append(r.runners, runner{s, a, number})
}

// mostRefusals are the nodes that are asked in vain before a race is given up: somebody who asks several at once is faster then.
const mostRefusals = 256

// Best appends the numbers of the best nodes for the pod to a list, by their rank, and those of the same rank by
// when they entered: so many, or all on which it fits. Then the race is without nodes again. It is not ok if too many
// nodes had to be asked in vain.
func (r *Race) Best(p *Pod, most int, to []int) (best []int, ok bool) {
	defer r.Stop()
	heap.Init(r)
	for found, refused := 0, 0; found < most && len(r.order) > 0; {
		first := &r.order[0]
		one := &r.runners[first.runner]
		switch {
		case first.isKnown:
			to = append(to, one.number)
			found++
			heap.Pop(r)
		default:
			if first.rank, first.isKnown = one.node.rank(p, one.Amounts), true; first.rank == WorstRank {
				if refused++; refused > mostRefusals {
					return to, false
				}
				heap.Pop(r)
			} else {
				heap.Fix(r, 0)
			}
		}
	}
	return to, true
}

// Stop ends a race without a result.
func (r *Race) Stop() {
	clear(r.runners)
	r.runners, r.order = r.runners[:0], r.order[:0]
}

// Len implements heap.Interface, as the following do.
func (r *Race) Len() int { return len(r.order) }

func (r *Race) Less(i, j int) bool {
	a, b := &r.order[i], &r.order[j]
	return a.rank < b.rank || a.rank == b.rank && a.runner < b.runner
}

func (r *Race) Swap(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] }

func (r *Race) Push(x any) { r.order = append(r.order, x.(place)) }

func (r *Race) Pop() any {
	last := len(r.order) - 1
	r.order = r.order[:last]
	return nil
}

// bound returns the least that the node's rank for a pod can be, and whether it is that.
func (n *node) bound(p *Pod, a Amounts) (fleet.Rank, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.base == nil || n.silent || !p.IsSimple() || n.isBlocked() {
		return n.rankLocked(p, a), true
	}
	r := &p.one.Request
	quote, verdict := n.summary.Quote(r)
	switch verdict {
	case hybrid.Refused:
		return WorstRank, true
	case hybrid.Known:
		isKnown := n.summary.IsFlat()
		if !isKnown && r.Class == hybrid.Sensitive {
			quote.NUMAs, quote.L3s = 1, 1 // at least
		}
		return n.rankBy(p, a, &quote), isKnown
	case hybrid.NotDirect:
		return n.rankBy(p, a, &quote), false
	default:
		return n.rankLocked(p, a), true
	}
}
