package cluster

import (
	"slices"
	"time"
)

// An Expired describes a reservation that has ended before its pod started.
type Expired struct {
	Pod   *Pod
	Node  string
	Ours  bool     // a scheduler with Candor had placed the pod
	Held  bool     // the room was only held for the pod (see HoldFor)
	Unmet *Refusal // reason why the node cannot meet the reservation; nil: timeout
}

// Expire ends the reservations that are unmet (see unmet.go) or have timed out, and returns them. A node becomes silent if three
// conditions hold: a scheduler with Candor has placed a pod there and the pod has started, the pod's reservation times out, and
// the node has sent no report since the start of the timeout. A silent node refuses pods that need Candor until it reports.
func (c *Cluster) Expire(now time.Time) []Expired {
	c.mu.Lock()
	defer c.mu.Unlock()
	var expired []Expired
	for _, n := range c.nodes {
		for unmet := n.takeUnmet(); unmet != nil; unmet = n.takeUnmet() {
			expired = append(expired, *unmet)
		}
		for _, r := range n.expire(now.Add(-c.patience)) {
			if r.isHeld {
				c.forget(r.pod.UID)
			}
			expired = append(expired, Expired{Pod: r.pod, Node: n.name, Ours: r.isOurs && !r.isHeld, Held: r.isHeld})
		}
	}
	return expired
}

// expire ends the node's reservations whose timeout started before the given time. It returns these reservations, except for
// those of resizes (isResize). Reservations that only hold room (isHeld) are also returned, but expire does not end them, because
// the caller must forget them.
func (n *node) expire(before time.Time) (late []*reservation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	hasEnded := false
	n.reserved = slices.DeleteFunc(n.reserved, func(r *reservation) bool {
		if !r.since.Before(before) || n.base == nil && !r.isHeld { // a node without a report cannot have reported the pod
			return false
		}
		if hasEnded = true; r.isResize() { // the node shows the pod, but has no room for the resized request
			r.waiting = nil
			return true
		}
		late = append(late, r)
		if r.isHeld {
			return false
		}
		n.isSilent = n.isSilent || r.isOurs && r.pod.Started && !n.reportedAt.After(r.since)
		r.waiting = nil
		return true
	})
	if hasEnded {
		n.rebuild()
	}
	return late
}

// Totals counts the nodes and reservations of a cluster.
type Totals struct {
	Reporting int // nodes with a report
	Reserved  int // pods with a waiting container (see reservation); without pods for which room is only held
	Blocked   int // reservations without room on their nodes
}

// Totals counts the cluster's nodes and reservations.
func (c *Cluster) Totals() (t Totals) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, n := range c.nodes {
		n.mu.Lock()
		if n.base != nil {
			t.Reporting++
		}
		for _, r := range n.reserved {
			if r.isHeld {
				continue
			}
			t.Reserved++
			if r.isBlocked {
				t.Blocked++
			}
		}
		n.mu.Unlock()
	}
	return t
}
