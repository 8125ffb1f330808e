package cluster

import (
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A reservation is a pod that is placed on a node. A container of the pod waits until the node's report shows it with its full
// request. When no container waits any more, the reservation stays in node.pods.
type reservation struct {
	node    *node
	isOurs  bool // placed by a scheduler with Candor
	isHeld  bool // room is only held (see HoldFor): the pod waits until the node reports the end of other pods
	isBound bool // the pod is bound to the node; protected by the mutexes of cluster and node

	acceptedVersion uint64 // lowest known resource version of the pod since its kubelet accepted the pod; 0: not accepted
	missedVersion   uint64 // version of the last report from which a container of the pod had disappeared; 0: none

	// The mutex of the node protects the following fields.
	pod       *Pod
	since     time.Time   // start of the timeout: since then the node could have reported the pod
	waiting   []Container // containers that the report does not show, or shows with less than their request
	isBlocked bool        // the node has no room for a waiting container
}

// removeShown removes the containers from r.waiting that the node's report shows with their full request.
func (r *reservation) removeShown() {
	if base := r.node.base; base != nil {
		r.waiting = slices.DeleteFunc(r.waiting, func(c Container) bool {
			g, shown := base.Grant(c.Request.ID)
			return shown && g.Guaranteed() >= c.Request.Guaranteed()
		})
		if len(r.waiting) == 0 {
			r.waiting = nil // frees the memory
		}
	}
}

// isResize reports whether the report shows all waiting containers, so that they only wait for larger grants.
func (r *reservation) isResize() bool {
	base := r.node.base
	return base != nil && !slices.ContainsFunc(r.waiting, func(c Container) bool {
		_, shown := base.Grant(c.Request.ID)
		return !shown
	})
}

// addMissing adds the container with the given ID to r.waiting, because the report with the given version lacks the container. It
// returns false if r.pod.lasting does not have the container, or if the container already waits.
func (r *reservation) addMissing(id string, version uint64, now time.Time) bool {
	is := func(c Container) bool { return c.Request.ID == id }
	i := slices.IndexFunc(r.pod.lasting, is)
	if i < 0 || slices.ContainsFunc(r.waiting, is) {
		return false
	}
	r.waiting, r.since, r.missedVersion = append(r.waiting, r.pod.lasting[i]), now, version
	return true
}

// replace changes the demand of the pod. A container waits afterwards if it waited before or if its request has grown. A container whose
// reservation expired before does not wait again.
func (r *reservation) replace(p *Pod, now time.Time) {
	if len(r.waiting) == 0 {
		r.since = now
	}
	var waiting []Container
	for _, c := range p.lasting {
		is := func(other Container) bool { return other.Name == c.Name }
		suffices := func(other Container) bool { return is(other) && other.Request.Guaranteed() >= c.Request.Guaranteed() }
		if slices.ContainsFunc(r.waiting, is) || !slices.ContainsFunc(r.pod.lasting, suffices) {
			waiting = append(waiting, c)
		}
	}
	r.pod, r.waiting = p, waiting
	r.removeShown()
}

// place places the waiting containers on n, and sets isBlocked if one of them has no room. It places the others anyway.
func (r *reservation) place(n *hybrid.Node) {
	r.isBlocked = false
	for i := range r.waiting {
		request := &r.waiting[i].Request
		if resizeGrant(n, request) {
			continue
		}
		_, _, err := n.Place(request)
		if err != nil && releaseInitContainers(n, r.pod) {
			_, _, err = n.Place(request)
		}
		r.isBlocked = r.isBlocked || err != nil
	}
}

// resizeGrant resizes the grant of a container on n to its current request, and reports whether n has such a grant. If n has no room, the
// container keeps its grant. Such a container does not block its reservation, because it runs on the real node with the same grant.
func resizeGrant(n *hybrid.Node, request *hybrid.Request) (isThere bool) {
	if _, isThere = n.Grant(request.ID); isThere {
		if plan, err := n.PlanResize(request.ID, request.Limit, request.Guarantee); err == nil {
			_ = n.Commit(plan) // cannot fail: the plan is from the current state
		}
	}
	return isThere
}

// releaseInitContainers releases the init containers of a pod on n, as a real node does before it creates the next container. It reports
// whether n had any.
func releaseInitContainers(n *hybrid.Node, p *Pod) bool {
	ended := false
	for i := range p.containers {
		if c := &p.containers[i]; c.RunsToCompletion {
			if plan, err := n.PlanRelease(c.Request.ID); err == nil {
				ended = n.Commit(plan) == nil || ended
			}
		}
	}
	return ended
}
