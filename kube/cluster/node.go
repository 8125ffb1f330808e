package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A node is a node of the cluster.
type node struct {
	name    string
	changes *atomic.Uint64 // number of changes: read without the lock, incremented under it

	mu        sync.Mutex
	silent    bool                    // its containers run, and its reports do not come
	base      *hybrid.Node            // from its report, immutable; nil: no report
	shown     *hybrid.Node            // from its last report, even if that was deleted
	heard     time.Time               // when that came
	problem   *Refusal                // why it takes no pod that needs Candor, without a base
	isListed  bool                    // there is a NodeCPU with that name
	hasEnded  bool                    // the cluster has forgotten the node
	version   uint64                  // of the report; 0: no report so far
	now       *hybrid.Node            // with the reservations; base itself if there are none
	unclaimed *hybrid.Node            // now without the claims of blocked reservations; nil: there are none
	reserved  []*reservation          // those that it does not show in full
	pods      map[string]*reservation // all that belong to it, by UID
	leaving   map[string]bool         // UIDs of deleted pods in the report
	outline
	last answer

	before      uint64 // version of the previous report; 0: none
	wereFigures hybrid.Figures
}

// unknownNode returns a node without any known facts.
func unknownNode(name string, changes *atomic.Uint64) *node {
	return &node{name: name, changes: changes, pods: map[string]*reservation{}}
}

// An answer is a node's result for a pod, valid until the node changes.
type answer struct {
	pod     *Pod
	changes uint64
	quote   hybrid.Quote
	refusal *Refusal
}

// copyOf returns a copy of a node for changes. The same lock protects both.
func copyOf(n *hybrid.Node, without map[string]bool) *hybrid.Node {
	grants := n.Grants()
	if len(without) > 0 {
		grants = slices.DeleteFunc(grants, func(g hybrid.Grant) bool { return without[nodecpu.HolderOf(g.ID).Pod] })
	}
	twin := n.NewLike()
	if err := twin.Restore(grants); err != nil {
		panic("cluster: a node refuses its own grants: " + err.Error()) // Restore accepts the result of Grants
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

// missed reserves the pods again that the last report showed and the next report lacks: they belong to the node, which was restarted or
// recreates their containers.
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

// drop removes a reservation. Moved fractions return to their CPUs in the report.
func (n *node) drop(r *reservation) {
	delete(n.pods, r.pod.UID)
	if i := slices.Index(n.reserved, r); i >= 0 {
		n.reserved = slices.Delete(n.reserved, i, i+1)
		n.rebuild()
	}
}

// leave records that a pod was deleted: its containers stay on the node until the node reports their end.
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
