package cluster

import (
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// The reservation of a bound pod is unmet if two conditions hold. First, the node knows the pod: its kubelet failed to create a container,
// or the node's report is newer than the kubelet's acceptance of the pod. Second, the report leaves no room for the pod, even after the end
// of all init containers and all deleted pods. The first condition compares resource versions instead of times, because the clocks of nodes
// differ.

// takeUnmet ends the first unmet reservation of the node, and returns it, or nil if there is none. It ends only one reservation, because
// afterwards the other reservations can have room.
func (n *node) takeUnmet() *Expired {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.base == nil || !slices.ContainsFunc(n.reserved, (*reservation).isKnownBlocked) {
		return nil
	}
	scratch := n.futureNode()
	for i, r := range n.reserved {
		if r.isHeld { // a reservation that only holds room is never unmet
			continue
		}
		other := *r
		if other.place(scratch); !other.isBlocked || !r.isKnownBlocked() {
			continue
		}
		unmet := &Expired{Pod: r.pod, Node: n.name, Ours: true, Unmet: r.shortage(scratch)}
		r.waiting = nil
		n.reserved = slices.Delete(n.reserved, i, i+1)
		n.rebuild()
		return unmet
	}
	return nil
}

// futureNode returns the report after all init containers have ended and all deleted pods have left.
func (n *node) futureNode() *hybrid.Node {
	scratch := copyOf(n.base, n.leaving)
	for _, r := range n.pods {
		releaseInitContainers(scratch, r.pod)
	}
	return scratch
}

// isKnownBlocked reports whether a reservation by a scheduler with Candor is blocked and its node knows the pod. A pod that is not bound is
// never known.
func (r *reservation) isKnownBlocked() bool {
	return r.isOurs && r.isBlocked && (r.pod.Failed || r.acceptedVersion > 0 && r.node.version > max(r.acceptedVersion, r.missedVersion))
}

// accept records the lowest resource version of the pod at which its kubelet had accepted the pod. Lower versions can arrive
// later, because versions decrease when the cluster is restored from a backup.
func (r *reservation) accept(p *Pod) {
	if p.Accepted > 0 && (r.acceptedVersion == 0 || p.Accepted < r.acceptedVersion) {
		r.acceptedVersion = p.Accepted
	}
}

// shortage returns the reason why a waiting container has no room on n.
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
	return errWaiting // not reached, because the caller failed to place a container just before
}
