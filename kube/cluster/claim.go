package cluster

import (
	"sort"

	"github.com/candor-project/candor/hybrid"
)

// A reservation is blocked if its node has no room for a container of the pod, because other containers took CPUs after the pod was placed.
// A blocked reservation has a claim, which occupies the largest part of the container's request for which the node has room. So later pods
// cannot delay the start of the container further. Pods that fit in the rest of the node are placed as usual.

// claimRest places a claim for each waiting container that has no grant on n. The caller has placed all other reservations before, so that
// a claim never takes the room of another reservation.
func (r *reservation) claimRest(n *hybrid.Node) {
	for i := range r.waiting {
		if _, isThere := n.Grant(r.waiting[i].Request.ID); !isThere {
			claim(n, &r.waiting[i].Request)
		}
	}
}

// claim places the largest part of a request for which the node has room, if any. For a sensitive request of 1000m or more, claim only
// reduces the number of whole CPUs and keeps the fraction, because a smaller fraction would not help the container to start.
func claim(n *hybrid.Node, r *hybrid.Request) {
	amount, step := r.Guaranteed(), hybrid.Milli(1000)
	if r.Class == hybrid.Flexible || amount < 1000 {
		step = 1
	}
	part := *r
	less := sort.Search(int(amount/step), func(less int) bool {
		setAmount(&part, amount-hybrid.Milli(less)*step)
		_, err := n.Quote(&part)
		return err == nil
	})
	if rest := amount - hybrid.Milli(less)*step; rest > 0 {
		setAmount(&part, rest)
		_, _, _ = n.Place(&part) // on an error, the node has no room even for the fraction, and there is no claim
	}
}

// setAmount sets the amount of CPU time that a request needs: the limit of a sensitive request, the guarantee of a flexible request.
func setAmount(r *hybrid.Request, amount hybrid.Milli) {
	if r.Class == hybrid.Sensitive {
		r.Limit = amount
	} else {
		r.Limit, r.Guarantee = 0, amount
	}
}
