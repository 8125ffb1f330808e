package cluster

import (
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// A node reports the reservation of a bound pod as unmet if two conditions hold. First, the node knows the pod: its kubelet failed to create
// a container, or its report is newer than the kubelet's acceptance of the pod. Second, its report leaves no room for the pod, even after
// the end of all init containers and of all deleted pods. Both follow from versions of objects, and not from clocks: nodes' clocks differ.

// takeUnmet removes the first unmet reservation, and returns it, or nil. Without it the next reservation can have room.
func (n *node) takeUnmet() *Expired {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.base == nil || !slices.ContainsFunc(n.reserved, (*reservation).isKnownBlocked) {
		return nil
	}
	then := n.later()
	for i, r := range n.reserved {
		if r.held { // not promised yet
			continue
		}
		other := *r
		if other.place(then); !other.blocked || !r.isKnownBlocked() {
			continue
		}
		unmet := &Expired{Pod: r.pod, Node: n.name, Ours: true, Unmet: r.shortage(then)}
		r.waiting = nil
		n.reserved = slices.Delete(n.reserved, i, i+1)
		n.rebuild()
		return unmet
	}
	return nil
}

// later returns the future node without further pods: init containers have ended, and deleted pods have left.
func (n *node) later() *hybrid.Node {
	then := copyOf(n.base, n.leaving)
	for _, r := range n.pods {
		endPassing(then, r.pod)
	}
	return then
}

// isKnownBlocked reports whether the node knows the pod of a reservation of this scheduler, and has no room for it now. No node knows a pod
// that is not bound.
func (r *reservation) isKnownBlocked() bool {
	return r.ours && r.blocked && (r.pod.Failed || r.accepted > 0 && r.node.version > max(r.accepted, r.missed))
}

// accept records the first version of the pod in which its node has accepted it. Versions go back when the cluster is restored from a backup.
func (r *reservation) accept(p *Pod) {
	if p.Accepted > 0 && (r.accepted == 0 || p.Accepted < r.accepted) {
		r.accepted = p.Accepted
	}
}

// shortage returns the reason why a container has no room on a node.
func (r *reservation) shortage(n *hybrid.Node) *Refusal {
	for i := range r.waiting {
		c := &r.waiting[i]
		if _, isThere := n.Grant(c.Request.ID); isThere {
			continue
		}
		if _, refusal := quoteOne(n, r.pod, c); refusal != nil {
			return refusal
		}
	}
	return waiting // not reached: the caller has just failed to place a container
}
