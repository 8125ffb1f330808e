package cluster

import (
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A reservation is a pod that belongs to a node, with its containers that the node's report does not show.
type reservation struct {
	node  *node
	ours  bool // promised by this scheduler, now or before it was started
	held  bool // not reserved yet: it waits for the node to report the end of other pods
	bound bool // for good; changed under the cluster's lock and the node's

	accepted uint64 // the pod's version when its node accepted it; 0: not yet
	missed   uint64 // the version of the report that lacked a container which the report before had; 0: none

	// For the node's lock.
	pod     *Pod
	since   time.Time   // the node could have shown it
	waiting []Container // those that the report does not show, or shows as smaller than they are by now
	blocked bool        // some of its containers have no room
}

// settle removes the containers that the node's report shows.
func (r *reservation) settle() {
	if base := r.node.base; base != nil {
		r.waiting = slices.DeleteFunc(r.waiting, func(c Container) bool {
			g, shown := base.Grant(c.Request.ID)
			return shown && g.Guaranteed() >= c.Request.Guaranteed()
		})
		if len(r.waiting) == 0 {
			r.waiting = nil // its memory, too
		}
	}
}

// grows reports whether only larger grants are pending, of resized containers.
func (r *reservation) grows() bool {
	base := r.node.base
	return base != nil && !slices.ContainsFunc(r.waiting, func(c Container) bool {
		_, shown := base.Grant(c.Request.ID)
		return !shown
	})
}

// await adds a lasting container of the pod to the pending containers. It reports whether the pod has a container of that name.
func (r *reservation) await(id string, version uint64, now time.Time) bool {
	is := func(c Container) bool { return c.Request.ID == id }
	i := slices.IndexFunc(r.pod.lasting, is)
	if i < 0 || slices.ContainsFunc(r.waiting, is) {
		return false
	}
	r.waiting, r.since, r.missed = append(r.waiting, r.pod.lasting[i]), now, version
	return true
}

// replace changes the demand of the pod. Abandoned parts stay abandoned.
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
	r.settle()
}

// place places the pending containers on a node. A container without room does not affect the others.
func (r *reservation) place(n *hybrid.Node) {
	r.blocked = false
	for i := range r.waiting {
		request := &r.waiting[i].Request
		if grow(n, request) {
			continue
		}
		_, _, err := n.Place(request)
		if err != nil && endPassing(n, r.pod) {
			_, _, err = n.Place(request)
		}
		r.blocked = r.blocked || err != nil
	}
}

// grow resizes a container on a node to its present request, and reports whether it is there. Without room it keeps its grant, as on its
// node: no other pod has to wait for it.
func grow(n *hybrid.Node, request *hybrid.Request) (isThere bool) {
	if _, isThere = n.Grant(request.ID); isThere {
		if plan, err := n.PlanResize(request.ID, request.Limit, request.Guarantee); err == nil {
			_ = n.Commit(plan) // it was planned just now
		}
	}
	return isThere
}

// endPassing releases the init containers of a pod on a node, as the node does when it creates the next container. It reports whether there
// were any.
func endPassing(n *hybrid.Node, p *Pod) bool {
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
