package cluster

import (
	"slices"
	"time"
)

// An Expired pod is a pod whose reservation has ended without its start.
type Expired struct {
	Pod   *Pod
	Node  string
	Ours  bool     // this scheduler placed it
	Held  bool     // not bound: it waited for deleted pods to leave the node
	Unmet *Refusal // reason why the node cannot meet the reservation; nil: timeout
}

// Expire ends the reservations that their nodes report as unmet and those that are late, and returns their pods. A node with a late pod and
// without a report in all the time is silent: it takes no pod that needs Candor until it reports.
func (c *Cluster) Expire(now time.Time) []Expired {
	c.mu.Lock()
	defer c.mu.Unlock()
	var expired []Expired
	for _, n := range c.nodes {
		for unmet := n.takeUnmet(); unmet != nil; unmet = n.takeUnmet() {
			expired = append(expired, *unmet)
		}
		for _, r := range n.expire(now.Add(-c.patience)) {
			if r.held {
				c.forget(r.pod.UID)
			}
			expired = append(expired, Expired{Pod: r.pod, Node: n.name, Ours: r.ours && !r.held, Held: r.held})
		}
	}
	return expired
}

// expire drops the pods that wait since before a time, and returns them. The cluster ends the room that is held for preemptors.
func (n *node) expire(before time.Time) (late []*reservation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	gaveUp := false
	n.reserved = slices.DeleteFunc(n.reserved, func(r *reservation) bool {
		if !r.since.Before(before) || n.base == nil && !r.held { // without a report it has shown no pod yet
			return false
		}
		if gaveUp = true; r.grows() { // its node shows it, and has not the room that it asks for now
			r.waiting = nil
			return true
		}
		late = append(late, r)
		if r.held {
			return false
		}
		n.silent = n.silent || r.ours && r.pod.Started && !n.heard.After(r.since)
		r.waiting = nil
		return true
	})
	if gaveUp {
		n.rebuild()
	}
	return late
}

// Totals are numbers of a cluster's nodes and reservations.
type Totals struct {
	Reporting int // nodes with a report
	Reserved  int // pods with containers that no report shows
	Blocked   int // reservations without room on their nodes
}

// Totals counts.
func (c *Cluster) Totals() (t Totals) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, n := range c.nodes {
		n.mu.Lock()
		if n.base != nil {
			t.Reporting++
		}
		for _, r := range n.reserved {
			if r.held {
				continue
			}
			t.Reserved++
			if r.blocked {
				t.Blocked++
			}
		}
		n.mu.Unlock()
	}
	return t
}
