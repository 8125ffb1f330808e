package cluster

import (
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// Reserve reserves room for a pod on a node. It returns the planned grants of the pod, or no grants if the node has no report. If the node
// has no room, Reserve returns the reason, and the pod has no reservation on any node.
func (c *Cluster) Reserve(name string, p *Pod, now time.Time) ([]hybrid.Grant, *Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.pods[p.UID]; r != nil && r.isBound {
		return nil, errBound
	}
	n := c.node(name)
	refusal, wasHeld := n.quoteHeld(p)
	c.forget(p.UID)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !wasHeld {
		_, refusal = n.quote(p)
	}
	if refusal != nil {
		return nil, refusal
	}
	c.add(n, &reservation{pod: p, since: now, isOurs: true})
	if n.base == nil {
		return nil, nil
	}
	return n.grantsOf(p), nil
}

// add adds a reservation to a node. The caller holds c.mu and n.mu.
func (c *Cluster) add(n *node, r *reservation) {
	r.node, r.waiting = n, slices.Clone(r.pod.lasting)
	r.accept(r.pod)
	c.pods[r.pod.UID], n.pods[r.pod.UID] = r, r
	delete(n.leaving, r.pod.UID)
	r.removeShown()
	if len(r.waiting) > 0 {
		n.reserve(r)
	}
}

// grantsOf returns the grants on n.current of those containers of the pod that do not run to completion.
func (n *node) grantsOf(p *Pod) []hybrid.Grant {
	var grants []hybrid.Grant
	for i := range p.lasting {
		if g, ok := n.current.Grant(p.lasting[i].Request.ID); ok {
			grants = append(grants, g)
		}
	}
	return grants
}

// Bound records that a pod is bound to a node, by any scheduler. If the pod already has a reservation on the node, Bound changes
// the reservation only if the pod's demand has changed.
func (c *Cluster) Bound(name string, p *Pod, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(name)
	if r := c.pods[p.UID]; r != nil && r.node == n && !r.isHeld {
		n.updatePod(r, p, now)
		return
	}
	c.forget(p.UID)
	n.mu.Lock()
	defer n.mu.Unlock()
	c.add(n, &reservation{pod: p, since: now, isOurs: p.Planned, isBound: true})
}

// updatePod updates a reservation of the node from the pod's current state.
func (n *node) updatePod(r *reservation, p *Pod, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.isBound = true
	r.accept(p)
	if r.pod.hasEqualDemand(p) {
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

// hasEqualDemand reports whether two pods have equal requests.
func (p *Pod) hasEqualDemand(q *Pod) bool {
	return p.memory == q.memory && slices.Equal(p.containers, q.containers)
}

// Cancel ends the reservation of a pod whose binding failed. The reservation of a bound pod stays, because a binding can succeed although
// its call reports an error.
func (c *Cluster) Cancel(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.pods[uid]; r != nil && !r.isBound {
		c.forget(uid)
	}
}

// Forget removes a pod that was deleted or has ended. If containers of the pod were still waiting, it returns the name of the node, because
// no report of the node will announce the freed room. Otherwise it returns "".
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
	r.node.markLeaving(uid)
}
