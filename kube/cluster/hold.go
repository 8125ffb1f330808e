package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// HoldFor holds room on a node for a pod that does not fit yet, but fits as soon as the node reports the end of deleted pods. An
// example is a pod that has preempted other pods. In this case HoldFor returns a refusal, because the pod must wait for the
// report. If the pod fits now, or will not fit even after the report, HoldFor returns nil. No other pod gets the held room until
// the pod is reserved or forgotten, or the hold times out. present are the UIDs of the existing pods.
func (c *Cluster) HoldFor(name string, p *Pod, present map[string]bool, now time.Time) *Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[name]
	r := c.pods[p.UID]
	if n == nil || r != nil && !r.isHeld {
		return nil
	}
	wasHeld := r != nil && r.node == n
	if wasHeld {
		now = r.since
	}
	c.forget(p.UID)
	deleted := c.deletedPodsLocked(n, present, nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, refusal := n.quote(p)
	if n.base == nil || refusal == nil && !wasHeld || refusal != nil && !n.fitsAfterDeletions(p, deleted) {
		return nil
	}
	c.add(n, &reservation{pod: p, since: now, isOurs: true, isHeld: true})
	if refusal == nil {
		return nil
	}
	return errAwaitingReport
}

// HeldOn returns the name of the node that holds room for a pod, or "" if none does.
func (c *Cluster) HeldOn(uid string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.pods[uid]; r != nil && r.isHeld {
		return r.node.name
	}
	return ""
}

// holdsRoomFor reports whether the node holds room for a pod.
func (n *node) holdsRoomFor(p *Pod) bool {
	r := n.pods[p.UID]
	return r != nil && r.isHeld
}

// quoteHeld reports whether the node holds room for a pod. If it does, quoteHeld also returns the node's refusal of the pod, or
// nil. The caller must call quoteHeld before the method forget ends the hold. Afterwards the node can refuse the pod because it
// holds room for other pods.
func (n *node) quoteHeld(p *Pod) (refusal *Refusal, isHeld bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isHeld = n.holdsRoomFor(p); isHeld {
		_, refusal = n.quote(p)
	}
	return refusal, isHeld
}

// isClosed reports whether the node holds room for a pod that does not fit yet. Such a node refuses all other pods until its next report.
// Otherwise these pods could take free room that the waiting pod needs in addition to the room of the deleted pods.
func (n *node) isClosed() bool {
	return slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.isHeld && r.isBlocked })
}

// withHeld returns the UIDs in its parameter without. If the node holds room for p, the result also has p's UID, because the held
// room is free for p.
func (n *node) withHeld(without map[string]bool, p *Pod) map[string]bool {
	if !n.holdsRoomFor(p) {
		return without
	}
	all := map[string]bool{p.UID: true}
	maps.Copy(all, without)
	return all
}

// FitsWithout does the work of Fits, but ignores the reservation of another pod, which was deleted or is about to be deleted.
func (c *Cluster) FitsWithout(name string, p *Pod, other string) *Refusal {
	n := c.lookupOrNew(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, refusal := n.quote(p)
	isReserved := slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.pod.UID == other })
	if refusal == nil || refusal.Final || n.base == nil || !isReserved {
		return refusal
	}
	_, refusal = n.evaluateWithout(p, map[string]bool{other: true, p.UID: true})
	return refusal
}

// evaluateWithout evaluates a pod on the node as if some pods had no reservations. The parameter without has the UIDs of these
// pods.
func (n *node) evaluateWithout(p *Pod, without map[string]bool) (hybrid.Quote, *Refusal) {
	scratch := copyOf(n.base, nil)
	blocked := n.placeReservations(scratch, without)
	quote, refusal := placeAll(scratch, p)
	return quote, orWaiting(refusal, blocked.hasClaims)
}
