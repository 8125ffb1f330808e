package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A node holds the report of a cluster node, and the reservations on this node.
type node struct {
	name    string
	changes *atomic.Uint64 // number of changes; read without mu, incremented under mu

	mu         sync.Mutex
	isSilent   bool                    // started containers, but sent no report within the timeout (see Expire)
	base       *hybrid.Node            // the valid report, immutable; nil if there is none
	lastReport *hybrid.Node            // the last valid report, even if it was deleted since
	reportedAt time.Time               // time of lastReport
	problem    *Refusal                // reason to refuse pods that need Candor if base is nil
	isListed   bool                    // the node has a NodeCPU
	isRetired  bool                    // the cluster has forgotten the node
	version    uint64                  // resource version of the NodeCPU at the last Report or NoReport; 0: none yet
	current    *hybrid.Node            // base plus the reservations and claims; base itself if there are none
	unclaimed  *hybrid.Node            // current without the claims; nil if there are no claims
	reserved   []*reservation          // reservations with a container that base does not show
	pods       map[string]*reservation // all pods of the node, by UID
	leaving    map[string]bool         // UIDs of deleted pods that base still shows
	outline
	cached answer

	previousVersion uint64 // version of the previous report; 0 if there is none
	previousFigures hybrid.Figures
}

// unknownNode returns a node without a report and without pods.
func unknownNode(name string, changes *atomic.Uint64) *node {
	return &node{name: name, changes: changes, pods: map[string]*reservation{}}
}

// An answer is the cached result of quote for a pod. It is valid until the node changes.
type answer struct {
	pod     *Pod
	changes uint64
	quote   hybrid.Quote
	refusal *Refusal
}

// copyOf returns a copy of a node that lacks the grants of some pods. The parameter without has the UIDs of these pods. The
// caller may change the copy. The lock of the original also protects the copy, because both share data.
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

// rebuild computes n.current and n.unclaimed from n.base and the reservations.
func (n *node) rebuild() {
	n.current, n.unclaimed = n.base, nil
	if n.base != nil && len(n.reserved) > 0 {
		n.current = copyOf(n.base, nil)
		for _, r := range n.reserved {
			r.place(n.current)
		}
		if n.isBlocked() {
			n.unclaimed = copyOf(n.current, nil)
			n.claimBlocked()
		}
	}
	n.changed()
}

// claimBlocked places the claims of the blocked reservations on n.current.
func (n *node) claimBlocked() {
	for _, r := range n.reserved {
		if r.isBlocked && r.isOurs {
			r.claimRest(n.current)
		}
	}
}

// changed increments n.changes, and updates the outline.
func (n *node) changed() {
	n.changes.Add(1)
	n.summarize(n.current)
	n.isOpen = n.hasReport && !n.isSilent && !n.isClosed()
}

// reserve adds a new reservation. If the node has claims, or the new reservation is blocked, reserve rebuilds n.current, because
// claims must be placed after all reservations.
func (n *node) reserve(r *reservation) {
	n.reserved = append(n.reserved, r)
	if n.base == nil {
		return
	}
	if n.unclaimed == nil {
		if n.current == n.base {
			n.current = copyOf(n.base, nil)
		}
		if r.place(n.current); !r.isBlocked {
			n.changed()
			return
		}
	}
	n.rebuild()
}

// reserveMissing reserves again the containers that the last report shows and the next report lacks. Their pods still belong to the node,
// which was restarted or recreates the containers.
func (n *node) reserveMissing(next *hybrid.Node, version uint64, now time.Time) {
	if n.lastReport == nil {
		return
	}
	for _, g := range n.lastReport.Grants() {
		if _, still := next.Grant(g.ID); still {
			continue
		}
		if r := n.pods[nodecpu.HolderOf(g.ID).Pod]; r != nil && r.addMissing(g.ID, version, now) && !slices.Contains(n.reserved, r) {
			n.reserved = append(n.reserved, r)
		}
	}
}

// drop removes a pod and its reservation. Fractions that the reservation had moved return to the CPUs that they have in the report.
func (n *node) drop(r *reservation) {
	delete(n.pods, r.pod.UID)
	if i := slices.Index(n.reserved, r); i >= 0 {
		n.reserved = slices.Delete(n.reserved, i, i+1)
		n.rebuild()
	}
}

// markLeaving records that a pod was deleted, if the report shows a container of the pod. The pod stays in n.leaving until a
// report no longer shows it.
func (n *node) markLeaving(uid string) {
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

// pruneLeaving removes the pods from n.leaving that the report no longer shows.
func (n *node) pruneLeaving() {
	before := n.leaving
	n.leaving = nil
	for uid := range before {
		n.markLeaving(uid)
	}
}

// isBlocked reports whether a reservation by a scheduler with Candor is blocked on the node.
func (n *node) isBlocked() bool {
	return slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r.isBlocked && r.isOurs })
}
