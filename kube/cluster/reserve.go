package cluster

import (
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// Reserve reserves room for a pod on a node, until Forget, the node's report, or the timeout. It returns the preliminary grants of the pod,
// or none if the node has no Candor. Without room it returns the reason, and the pod has no reservation anywhere.
func (c *Cluster) Reserve(name string, p *Pod, now time.Time) ([]hybrid.Grant, *Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.pods[p.UID]; r != nil && r.bound {
		return nil, isBound
	}
	n := c.node(name)
	refusal, wasHeld := n.askHeld(p)
	c.forget(p.UID)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !wasHeld {
		_, refusal = n.ask(p)
	}
	if refusal != nil {
		return nil, refusal
	}
	c.enter(n, &reservation{pod: p, since: now, ours: true})
	if n.base == nil {
		return nil, nil
	}
	return n.grantsOf(p), nil
}

// enter adds a pod to a node. Both are locked.
func (c *Cluster) enter(n *node, r *reservation) {
	r.node, r.waiting = n, slices.Clone(r.pod.lasting)
	r.accept(r.pod)
	c.pods[r.pod.UID], n.pods[r.pod.UID] = r, r
	delete(n.leaving, r.pod.UID)
	r.settle()
	if len(r.waiting) > 0 {
		n.reserve(r)
	}
}

// grantsOf returns the grants of a pod's lasting containers.
func (n *node) grantsOf(p *Pod) []hybrid.Grant {
	var grants []hybrid.Grant
	for i := range p.lasting {
		if g, ok := n.now.Grant(p.lasting[i].Request.ID); ok {
			grants = append(grants, g)
		}
	}
	return grants
}

// Bound records that a pod belongs to a node, regardless of the scheduler. A known pod does not change, unless its demand has changed.
func (c *Cluster) Bound(name string, p *Pod, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(name)
	if r := c.pods[p.UID]; r != nil && r.node == n && !r.held {
		n.told(r, p, now)
		return
	}
	c.forget(p.UID)
	n.mu.Lock()
	defer n.mu.Unlock()
	c.enter(n, &reservation{pod: p, since: now, ours: p.Planned, bound: true})
}

// told updates the known facts on a pod of the node.
func (n *node) told(r *reservation, p *Pod, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.bound = true
	r.accept(p)
	if r.pod.asksAs(p) {
		r.pod = p
		return
	}
	r.replace(p, now)
	switch i := slices.Index(n.reserved, r); {
	case i < 0 && len(r.waiting) > 0:
		n.reserved = append(n.reserved, r)
	case i >= 0 && len(r.waiting) == 0:
		n.reserved = slices.Delete(n.reserved, i, i+1)
	}
	n.rebuild()
}

// asksAs reports whether two pods ask for the same.
func (p *Pod) asksAs(q *Pod) bool {
	return p.memory == q.memory && slices.Equal(p.containers, q.containers)
}

// Cancel ends the reservation of a pod whose binding failed. A bound pod stays: the event of its binding can precede the failure.
func (c *Cluster) Cancel(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.pods[uid]; r != nil && !r.bound {
		c.forget(uid)
	}
}

// Forget ends the reservation of a pod that is deleted or moves to another node. It returns the node with freed room that no report shows,
// or "".
func (c *Cluster) Forget(uid string) (freed string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.pods[uid]
	c.forget(uid)
	if r == nil || len(r.waiting) == 0 {
		return ""
	}
	return r.node.name
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
