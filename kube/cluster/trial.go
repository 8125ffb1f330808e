package cluster

import (
	"maps"
	"slices"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A Trial is a hypothetical node without some of its pods and with other pods, for preemption. The node itself does not change. A Trial is
// for one goroutine.
type Trial struct {
	cluster *Cluster
	node    *node
	without map[string]bool // by UID
	with    []*Pod
}

// Trial returns a trial of a node in its present state.
func (c *Cluster) Trial(name string) *Trial {
	n := c.findAny(name)
	return &Trial{cluster: c, node: n}
}

// Clone returns a trial of its own.
func (t *Trial) Clone() *Trial {
	return &Trial{t.cluster, t.node, maps.Clone(t.without), slices.Clone(t.with)}
}

// Remove takes a pod away.
func (t *Trial) Remove(uid string) {
	t.with = slices.DeleteFunc(t.with, func(p *Pod) bool { return p.UID == uid })
	if t.without == nil {
		t.without = map[string]bool{}
	}
	t.without[uid] = true
}

// Add adds a pod. A removed pod gets its former CPUs.
func (t *Trial) Add(p *Pod) {
	if t.without[p.UID] {
		delete(t.without, p.UID)
		return
	}
	t.with = append(t.with, p)
}

// Fits returns the reason why a pod does not fit, or nil. If the room of deleted pods in the node's report suffices, no other pod has to be
// preempted: the pod is refused until the node has reported. present are the UIDs of the existing pods, except those of the trial.
func (t *Trial) Fits(p *Pod, present map[string]bool) *Refusal {
	gone := t.cluster.gone(t.node, present, t.without)
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	without := t.node.andHeld(t.without, p)
	switch {
	case t.node.base == nil || len(p.containers) == 0 || t.node.silent && p.NeedsCandor():
		_, refusal := t.node.find(p)
		return refusal
	case t.node.awaits(p, gone):
		return awaited
	}
	n, blocked := t.node.with(without, t.with)
	if blocked.held && !t.node.holds(p) {
		return waiting
	}
	_, refusal := placeAll(n, p)
	return orWaiting(refusal, blocked.claims)
}

// orWaiting returns the reason for a refusal: on a node with claims it is most often these.
func orWaiting(refusal *Refusal, blocked bool) *Refusal {
	if refusal != nil && !refusal.Final && blocked {
		return waiting
	}
	return refusal
}

// gone returns the pods that a node's report shows, that belonged to the node, and that no longer exist: the caller can know of an end
// before the cluster does.
func (c *Cluster) gone(n *node, present, but map[string]bool) map[string]bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.goneOf(n, present, but)
}

// goneOf is gone under the cluster's lock.
func (c *Cluster) goneOf(n *node, present, but map[string]bool) map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	gone := maps.Clone(n.leaving)
	if n.base == nil {
		return gone
	}
	for _, g := range n.base.Grants() {
		uid := nodecpu.HolderOf(g.ID).Pod
		if r := c.pods[uid]; r == nil || r.node != n || present[uid] || but[uid] {
			continue
		}
		if gone == nil {
			gone = map[string]bool{}
		}
		gone[uid] = true
	}
	return gone
}

// awaits reports whether a pod has room after the deleted pods have left.
func (n *node) awaits(p *Pod, gone map[string]bool) bool {
	if len(gone) == 0 {
		return false
	}
	then, _ := n.with(n.andHeld(gone, p), nil)
	_, refusal := placeAll(then, p)
	return refusal == nil
}

// with returns the node without some pods and with other pods, and the reservations without room on it.
func (n *node) with(without map[string]bool, others []*Pod) (then *hybrid.Node, blocked pending) {
	then = copyOf(n.base, without)
	blocked = n.keepPromises(then, without)
	for _, p := range others {
		placed := reservation{pod: p, waiting: slices.Clone(p.lasting)}
		placed.place(then)
	}
	return then, blocked
}

// pending describes the reservations that a node has no room for.
type pending struct {
	claims bool // some of them claim the room that is free
	held   bool // some of them wait for the room of other pods: the node takes no other pod (isHeld)
}

// keepPromises places the reservations of the node on a copy of it, except those of some pods, and returns those that the copy
// has no room for.
func (n *node) keepPromises(then *hybrid.Node, without map[string]bool) (blocked pending) {
	var claims []*reservation
	for _, r := range n.reserved {
		if without[r.pod.UID] {
			continue
		}
		other := *r
		other.waiting = slices.Clone(r.waiting)
		if other.place(then); other.blocked && other.ours {
			claims = append(claims, &other)
		}
		blocked.held = blocked.held || other.held && other.blocked
	}
	for _, r := range claims {
		r.claimRest(then)
	}
	blocked.claims = len(claims) > 0
	return blocked
}
