package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// HoldFor holds a node's room for a pod, such as a preemptor, that only waits for the node to report the end of other pods, and returns a
// refusal then. No other pod gets that room until the pod is reserved or forgotten, or until the timeout. present are the UIDs of the
// existing pods.
func (c *Cluster) HoldFor(name string, p *Pod, present map[string]bool, now time.Time) *Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[name]
	r := c.pods[p.UID]
	if n == nil || r != nil && !r.held {
		return nil
	}
	wasHeld := r != nil && r.node == n
	if wasHeld {
		now = r.since
	}
	c.forget(p.UID)
	gone := c.goneOf(n, present, nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, refusal := n.ask(p)
	if n.base == nil || refusal == nil && !wasHeld || refusal != nil && !n.awaits(p, gone) {
		return nil
	}
	c.enter(n, &reservation{pod: p, since: now, ours: true, held: true})
	if refusal == nil {
		return nil
	}
	return awaited
}

// HeldOn returns the node on which room is held for a pod, or "".
func (c *Cluster) HeldOn(uid string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.pods[uid]; r != nil && r.held {
		return r.node.name
	}
	return ""
}

// holds reports whether a pod waits for room on the node.
func (n *node) holds(p *Pod) bool {
	r := n.pods[p.UID]
	return r != nil && r.held
}

// askHeld asks for a pod that waits for room on the node, while that room is held for it: once it is not, other waiting pods
// would close the node to it.
func (n *node) askHeld(p *Pod) (refusal *Refusal, isHeld bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isHeld = n.holds(p); isHeld {
		_, refusal = n.ask(p)
	}
	return refusal, isHeld
}

// isHeld reports whether the node does not have the held room of a pod yet. Until its next report it takes no other pod: the pod can need
// the present room in addition to the room of leaving pods.
func (n *node) isHeld() bool {
	return slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.held && r.blocked })
}

// andHeld adds a pod to the omitted pods if the node only holds room for it.
func (n *node) andHeld(without map[string]bool, p *Pod) map[string]bool {
	if !n.holds(p) {
		return without
	}
	all := map[string]bool{p.UID: true}
	maps.Copy(all, without)
	return all
}

// FitsWithout is Fits without the reservation of another pod, which is deleted or about to be deleted.
func (c *Cluster) FitsWithout(name string, p *Pod, other string) *Refusal {
	n := c.findAny(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, refusal := n.ask(p)
	isReserved := slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.pod.UID == other })
	if refusal == nil || refusal.Final || n.base == nil || !isReserved {
		return refusal
	}
	_, refusal = n.findBeside(p, map[string]bool{other: true, p.UID: true})
	return refusal
}

// findBeside is find without the reservations of some pods.
func (n *node) findBeside(p *Pod, without map[string]bool) (hybrid.Quote, *Refusal) {
	then := copyOf(n.base, nil)
	blocked := n.keepPromises(then, without)
	quote, refusal := placeAll(then, p)
	return quote, orWaiting(refusal, blocked.claims)
}
