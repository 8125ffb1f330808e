package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A node is one of the cluster.
type node struct {
	name    string
	changes *atomic.Uint64 // how often what is known of it has changed: read without the lock, grows within it

	mu        sync.Mutex
	silent    bool                    // its containers run, and its reports do not come
	base      *hybrid.Node            // by its report, never changed; nil: there is none
	shown     *hybrid.Node            // by its last report, also where that is gone
	heard     time.Time               // when that came
	problem   *Refusal                // why it takes no pod that needs Candor, without a base
	isListed  bool                    // there is a NodeCPU of that name
	hasEnded  bool                    // the cluster has forgotten the node
	version   uint64                  // of the report; 0: there never was one
	now       *hybrid.Node            // with what is reserved; base itself where that is nothing
	unclaimed *hybrid.Node            // now without the claims of blocked reservations; nil: there are none
	reserved  []*reservation          // those that it does not show in full
	pods      map[string]*reservation // all that belong to it, by UID
	leaving   map[string]bool         // UIDs of pods that are gone and that the report still shows
	outline
	last answer

	before      uint64 // version of the last report but one; 0: there was none
	wereFigures hybrid.Figures
}

// unknownNode returns a node of which nothing is known.
func unknownNode(name string, changes *atomic.Uint64) *node {
	return &node{name: name, changes: changes, pods: map[string]*reservation{}}
}

// An answer is what a node has said of a pod, for as long as it does not change.
type answer struct {
	pod     *Pod
	changes uint64
	quote   hybrid.Quote
	refusal *Refusal
}

// copyOf returns a node like another one that can be changed. Both are for the same lock.
func copyOf(n *hybrid.Node, without map[string]bool) *hybrid.Node {
	grants := n.Grants()
	if len(without) > 0 {
		grants = slices.DeleteFunc(grants, func(g hybrid.Grant) bool { return without[nodecpu.HolderOf(g.ID).Pod] })
	}
	twin := n.NewLike()
	if err := twin.Restore(grants); err != nil {
		panic("cluster: a node refuses its own grants: " + err.Error()) // Restore takes what Grants returns
	}
	return twin
}

// rebuild brings now up to date with the report and the reservations.
func (n *node) rebuild() {
	n.now, n.unclaimed = n.base, nil
	if n.base != nil && len(n.reserved) > 0 {
		n.now = copyOf(n.base, nil)
		for _, r := range n.reserved {
			r.place(n.now)
		}
		if n.isBlocked() {
			n.unclaimed = copyOf(n.now, nil)
			n.claimBlocked()
		}
	}
	n.changed()
}

// claimBlocked places the claims of the blocked reservations.
func (n *node) claimBlocked() {
	for _, r := range n.reserved {
		if r.blocked && r.ours {
			r.claimRest(n.now)
		}
	}
}

// changed notes that something has changed.
func (n *node) changed() {
	n.changes.Add(1)
	n.draw(n.now)
	n.isOpen = n.reports && !n.silent && !n.isHeld()
}

// reserve adds a reservation that is new. Claims come after all reservations, so that a node with claims is rebuilt.
func (n *node) reserve(r *reservation) {
	n.reserved = append(n.reserved, r)
	if n.base == nil {
		return
	}
	if n.unclaimed == nil {
		if n.now == n.base {
			n.now = copyOf(n.base, nil)
		}
		if r.place(n.now); !r.blocked {
			n.changed()
			return
		}
	}
	n.rebuild()
}

// missed has pods wait again for what the last report showed of them and the next one does not: they belong to the node, which
// has been started anew or makes their containers again.
func (n *node) missed(next *hybrid.Node, version uint64, now time.Time) {
	if n.shown == nil {
		return
	}
	for _, g := range n.shown.Grants() {
		if _, still := next.Grant(g.ID); still {
			continue
		}
		if r := n.pods[nodecpu.HolderOf(g.ID).Pod]; r != nil && r.await(g.ID, version, now) && !slices.Contains(n.reserved, r) {
			n.reserved = append(n.reserved, r)
		}
	}
}

// drop takes a reservation away. What it moved is as the report has it again.
func (n *node) drop(r *reservation) {
	delete(n.pods, r.pod.UID)
	if i := slices.Index(n.reserved, r); i >= 0 {
		n.reserved = slices.Delete(n.reserved, i, i+1)
		n.rebuild()
	}
}

// leave notes that a pod is gone: the node still has its containers until it reports that it has not.
func (n *node) leave(uid string) {
	if n.base == nil {
		return
	}
	for _, g := range n.base.Grants() {
		if nodecpu.HolderOf(g.ID).Pod == uid {
			if n.leaving == nil {
				n.leaving = map[string]bool{}
			}
			n.leaving[uid] = true
			return
		}
	}
}

// stillLeaving keeps of the pods that leave those that the report shows.
func (n *node) stillLeaving() {
	before := n.leaving
	n.leaving = nil
	for uid := range before {
		n.leave(uid)
	}
}

// isBlocked reports whether the node has no room for a pod that this scheduler placed there.
func (n *node) isBlocked() bool {
	return slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.blocked && r.ours })
}
