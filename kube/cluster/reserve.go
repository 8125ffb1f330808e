package cluster

import (
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// Reserve gives a pod its room on a node, at once and until Forget, the node's report, or the end of
// patience. It returns the grants that the pod has there for now, none where the node has no Candor. Where there is
// no room any more it says why, and nothing has changed.
func (c *Cluster) Reserve(name string, p *Pod, now time.Time) ([]hybrid.Grant, *Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(p.UID)
	n := c.node(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, refusal := n.ask(p); refusal != nil {
		return nil, refusal
	}
	c.enter(n, p, now, true)
	if n.base == nil {
		return nil, nil
	}
	return n.grantsOf(p), nil
}

// enter adds a pod to a node. Both are locked.
func (c *Cluster) enter(n *node, p *Pod, now time.Time, ours bool) {
	r := &reservation{pod: p, node: n, since: now, ours: ours, waiting: slices.Clone(p.lasting)}
	c.pods[p.UID] = r
	r.settle()
	if len(r.waiting) > 0 {
		n.reserve(r)
	}
}

// grantsOf returns what the lasting containers of a pod have.
func (n *node) grantsOf(p *Pod) []hybrid.Grant {
	var grants []hybrid.Grant
	for i := range p.lasting {
		if g, ok := n.now.Grant(p.lasting[i].Request.ID); ok {
			grants = append(grants, g)
		}
	}
	return grants
}

// Bound notes that a pod belongs to a node, whoever has chosen it. One that is known already stays
// as it is, unless it asks for something else by now.
func (c *Cluster) Bound(name string, p *Pod, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(name)
	ours, since := false, now
	if r := c.pods[p.UID]; r != nil {
		if r.node == n && (len(r.waiting) == 0 || r.pod.same(p)) {
			return
		}
		if r.node == n {
			ours, since = r.ours, r.since
		}
	}
	c.forget(p.UID)
	n.mu.Lock()
	defer n.mu.Unlock()
	c.enter(n, p, since, ours)
}

// same reports whether two pods ask for the same.
func (p *Pod) same(q *Pod) bool {
	return p.memory == q.memory && slices.Equal(p.containers, q.containers)
}

// Forget ends the reservation of a pod that is gone or goes elsewhere.
func (c *Cluster) Forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(uid)
}

func (c *Cluster) forget(uid string) {
	r := c.pods[uid]
	if r == nil {
		return
	}
	delete(c.pods, uid)
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	r.node.drop(r)
	r.node.leave(uid)
}

// An Expired pod is one that its node has not shown in time.
type Expired struct {
	Pod  *Pod
	Ours bool // it was placed by Reserve
}

// Expire ends the reservations with which the patience has ended, and returns their pods.
func (c *Cluster) Expire(now time.Time) []Expired {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var expired []Expired
	for _, n := range c.nodes {
		expired = append(expired, n.expire(now.Add(-c.patience))...)
	}
	return expired
}

func (n *node) expire(before time.Time) (expired []Expired) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.base == nil { // it has shown nothing yet
		return nil
	}
	n.reserved = slices.DeleteFunc(n.reserved, func(r *reservation) bool {
		late := r.since.Before(before)
		if late {
			r.waiting = nil
			expired = append(expired, Expired{r.pod, r.ours})
		}
		return late
	})
	if expired != nil {
		n.rebuild()
	}
	return expired
}

// Totals are numbers of a cluster's nodes and reservations.
type Totals struct {
	Reporting int // nodes with a report
	Reserved  int // pods with containers that no report shows
	Blocked   int // of those, for which there is no room any more
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
		t.Reserved += len(n.reserved)
		for _, r := range n.reserved {
			if r.blocked {
				t.Blocked++
			}
		}
		n.mu.Unlock()
	}
	return t
}
