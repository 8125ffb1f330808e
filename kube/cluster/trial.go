package cluster

import (
	"maps"
	"slices"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A Trial is a hypothetical node for preemption: the real node without some of its pods and with other pods. It does not change the real
// node. A Trial is not safe for concurrent use.
type Trial struct {
	cluster *Cluster
	node    *node
	removed map[string]bool // UIDs of removed pods
	added   []*Pod
}

// Trial returns a trial of a node without changes.
func (c *Cluster) Trial(name string) *Trial {
	n := c.lookupOrNew(name)
	return &Trial{cluster: c, node: n}
}

// Clone returns an independent copy of the trial.
func (t *Trial) Clone() *Trial {
	return &Trial{t.cluster, t.node, maps.Clone(t.removed), slices.Clone(t.added)}
}

// Remove removes a pod from the trial.
func (t *Trial) Remove(uid string) {
	t.added = slices.DeleteFunc(t.added, func(p *Pod) bool { return p.UID == uid })
	if t.removed == nil {
		t.removed = map[string]bool{}
	}
	t.removed[uid] = true
}

// Add adds a pod to the trial. If Remove has removed the pod before, Add restores the pod on its former CPUs.
func (t *Trial) Add(p *Pod) {
	if t.removed[p.UID] {
		delete(t.removed, p.UID)
		return
	}
	t.added = append(t.added, p)
}

// Fits returns nil if a pod fits, otherwise the reason for the refusal. It also refuses a pod that only has to wait for the node's
// report that deleted pods have ended: such a pod must not preempt others. The parameter present has the UIDs of the pods that
// exist, without the pods that this trial has removed.
func (t *Trial) Fits(p *Pod, present map[string]bool) *Refusal {
	deleted := t.cluster.deletedPods(t.node, present, t.removed)
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	without := t.node.withHeld(t.removed, p)
	switch {
	case t.node.base == nil || len(p.containers) == 0 || t.node.isSilent && p.NeedsCandor():
		_, refusal := t.node.evaluate(p)
		return refusal
	case t.node.fitsAfterDeletions(p, deleted):
		return errAwaitingReport
	}
	n, blocked := t.node.copyWith(without, t.added)
	if blocked.hasHeld && !t.node.holdsRoomFor(p) {
		return errWaiting
	}
	_, refusal := placeAll(n, p)
	return orWaiting(refusal, blocked.hasClaims)
}

// orWaiting replaces a refusal that is not final by errWaiting if blocked is true (the node has claims), because claims are the most
// frequent reason of such a refusal.
func orWaiting(refusal *Refusal, blocked bool) *Refusal {
	if refusal != nil && !refusal.Final && blocked {
		return errWaiting
	}
	return refusal
}

// deletedPods returns the UIDs of the pods in the node's report that have been deleted. These are the pods in n.leaving, and
// the pods of the node whose UIDs are in neither parameter: the caller can know about a deletion before the cluster does.
func (c *Cluster) deletedPods(n *node, present, except map[string]bool) map[string]bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.deletedPodsLocked(n, present, except)
}

// deletedPodsLocked does the work of deletedPods for a caller that holds c.mu.
func (c *Cluster) deletedPodsLocked(n *node, present, except map[string]bool) map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	deleted := maps.Clone(n.leaving)
	if n.base == nil {
		return deleted
	}
	for _, g := range n.base.Grants() {
		uid := nodecpu.HolderOf(g.ID).Pod
		if r := c.pods[uid]; r == nil || r.node != n || present[uid] || except[uid] {
			continue
		}
		if deleted == nil {
			deleted = map[string]bool{}
		}
		deleted[uid] = true
	}
	return deleted
}

// fitsAfterDeletions reports whether a pod fits once the deleted pods have left the node. It returns false if there are no deleted pods.
func (n *node) fitsAfterDeletions(p *Pod, deleted map[string]bool) bool {
	if len(deleted) == 0 {
		return false
	}
	scratch, _ := n.copyWith(n.withHeld(deleted, p), nil)
	_, refusal := placeAll(scratch, p)
	return refusal == nil
}

// copyWith returns a copy of the node. The copy lacks the pods whose UIDs are in the parameter without, and has the additional
// pods in others. copyWith also returns the kinds of reservations that have no room on the copy.
func (n *node) copyWith(without map[string]bool, others []*Pod) (scratch *hybrid.Node, blocked blockedKinds) {
	scratch = copyOf(n.base, without)
	blocked = n.placeReservations(scratch, without)
	for _, p := range others {
		placed := reservation{pod: p, waiting: slices.Clone(p.lasting)}
		placed.place(scratch)
	}
	return scratch, blocked
}

// blockedKinds describes the reservations for which a node has no room.
type blockedKinds struct {
	hasClaims bool // at least one has a claim
	hasHeld   bool // at least one only holds room (isHeld), so that the node refuses all other pods (isClosed)
}

// placeReservations places the node's reservations and claims on a copy of the node, except for the reservations of some pods. It returns
// the kinds of reservations for which the copy has no room.
func (n *node) placeReservations(scratch *hybrid.Node, without map[string]bool) (blocked blockedKinds) {
	var claims []*reservation
	for _, r := range n.reserved {
		if without[r.pod.UID] {
			continue
		}
		other := *r
		other.waiting = slices.Clone(r.waiting)
		if other.place(scratch); other.isBlocked && other.isOurs {
			claims = append(claims, &other)
		}
		blocked.hasHeld = blocked.hasHeld || other.isHeld && other.isBlocked
	}
	for _, r := range claims {
		r.claimRest(scratch)
	}
	blocked.hasClaims = len(claims) > 0
	return blocked
}
