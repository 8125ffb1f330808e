package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// HoldFor returns a refusal if a pod has to wait for nothing but a node's report that others are gone, who may have made way for it.
// Until it is reserved or forgotten, or the patience has ended, nobody else gets that room. present are the UIDs of those that
// are not gone.
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

// HeldOn returns the node on which a pod waits for room that others leave, "" if there is none.
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

// isHeld reports whether the node has no room yet for a pod for which others make way. Until its next report it takes no other pod: room that
// is free now may be needed beside the room that is to come.
func (n *node) isHeld() bool {
	return slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.held && r.blocked })
}

// andHeld adds a pod to others that are left out, if it is there for nothing but the room that it waits for.
func (n *node) andHeld(without map[string]bool, p *Pod) map[string]bool {
	if !n.holds(p) {
		return without
	}
	all := map[string]bool{p.UID: true}
	maps.Copy(all, without)
	return all
}

// FitsWithout is Fits as it would be without what is reserved for another pod, which is gone or about to be.
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

// findBeside is find without what is reserved for some pods.
func (n *node) findBeside(p *Pod, without map[string]bool) (hybrid.Quote, *Refusal) {
	then := copyOf(n.base, nil)
	blocked := n.keepPromises(then, without)
	quote, refusal := placeAll(then, p)
	return quote, orWaiting(refusal, blocked.claims)
}
