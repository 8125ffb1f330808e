package cluster

import (
	"slices"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A reservation is a pod that belongs to a node, as far as the node's report does not show it.
type reservation struct {
	pod     *Pod
	node    *node
	since   time.Time
	ours    bool        // promised here, not found bound
	waiting []Container // those that the report does not show
	blocked bool        // there is no room for some of them
}

// settle forgets what the node's report shows.
func (r *reservation) settle() {
	if base := r.node.base; base != nil {
		r.waiting = slices.DeleteFunc(r.waiting, func(c Container) bool {
			_, shown := base.Grant(c.Request.ID)
			return shown
		})
	}
}

// place gives the waiting containers their room on a node. Where one has none the others have theirs all the same.
func (r *reservation) place(n *hybrid.Node) {
	r.blocked = false
	for i := range r.waiting {
		request := &r.waiting[i].Request
		_, _, err := n.Place(request)
		if err != nil && endPassing(n, r.pod) {
			_, _, err = n.Place(request)
		}
		r.blocked = r.blocked || err != nil
	}
}

// endPassing frees what a node holds for init containers of a pod, as the node does when it makes
// the next container. It reports whether there was something.
func endPassing(n *hybrid.Node, p *Pod) bool {
	ended := false
	for i := range p.containers {
		if c := &p.containers[i]; c.Passing {
			if plan, err := n.PlanRelease(c.Request.ID); err == nil {
				ended = n.Commit(plan) == nil || ended
			}
		}
	}
	return ended
}
