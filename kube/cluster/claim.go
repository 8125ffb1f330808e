package cluster

import (
	"sort"

	"github.com/candor-project/candor/hybrid"
)

// A reservation is blocked when its node has no room for a container of the pod: other containers took CPUs after the pod was placed. A
// blocked reservation claims the free part of the CPUs that the container asks for, so that later pods do not delay the start of the
// container further. Pods that fit beside the claim are placed as usual.

// claimRest places a claim for each waiting container that is not on a node. The other reservations are placed before, since their pods
// were promised their room too.
func (r *reservation) claimRest(n *hybrid.Node) {
	for i := range r.waiting {
		if _, isThere := n.Grant(r.waiting[i].Request.ID); !isThere {
			claim(n, &r.waiting[i].Request)
		}
	}
}

// claim places the largest part of a request for which a node has room, if any. A sensitive request of several CPUs keeps its fraction
// and asks for fewer whole CPUs: CPU time on other containers' fractional CPUs is no use to it.
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
		_, _, _ = n.Place(&part) // an error: not even the fraction has room, and there is no claim
	}
}

// setAmount sets the amount that counts of a request.
func setAmount(r *hybrid.Request, amount hybrid.Milli) {
	if r.Class == hybrid.Sensitive {
		r.Limit = amount
	} else {
		r.Limit, r.Guarantee = 0, amount
	}
}
