package cluster

import (
	"github.com/candor-project/candor/hybrid"
)

// quote returns the cost of a pod on the node, or the reason for a refusal. It caches the last answer. The caller holds n.mu.
func (n *node) quote(p *Pod) (hybrid.Quote, *Refusal) {
	changes := n.changes.Load()
	if n.cached.pod == p && n.cached.changes == changes {
		return n.cached.quote, n.cached.refusal
	}
	a := answer{pod: p, changes: changes}
	a.quote, a.refusal = n.evaluate(p)
	n.cached = a
	return a.quote, a.refusal
}

func (n *node) evaluate(p *Pod) (hybrid.Quote, *Refusal) {
	switch {
	case len(p.containers) == 0:
		return hybrid.Quote{Direct: true}, nil
	case n.base == nil:
		return n.evaluateUnreported(p)
	case n.isSilent && p.NeedsCandor():
		return hybrid.Quote{}, errSilent
	case n.holdsRoomFor(p):
		return n.evaluateWithout(p, map[string]bool{p.UID: true})
	case n.isClosed():
		return hybrid.Quote{}, errWaiting
	}
	if p.combined != nil {
		if q, verdict := n.summary.Quote(&p.combined.Request); verdict == hybrid.Known && n.summary.IsFlat() {
			return q, nil
		}
	}
	q, refusal := quoteAll(n.current, p)
	if refusal != nil && n.unclaimed != nil {
		if _, itself := quoteAll(n.unclaimed, p); itself == nil {
			refusal = errWaiting
		}
	}
	return q, refusal
}

// quoteAll returns the total cost of a pod's containers on a node. It does not change the node.
func quoteAll(n *hybrid.Node, p *Pod) (hybrid.Quote, *Refusal) {
	if p.combined != nil {
		return quoteOne(n, p, p.combined)
	}
	if _, refusal := quoteOne(n, p, &p.containers[0]); refusal != nil {
		return hybrid.Quote{}, refusal
	}
	return placeAll(copyOf(n, nil), p)
}

// evaluateUnreported does the work of evaluate for a node without a report.
func (n *node) evaluateUnreported(p *Pod) (hybrid.Quote, *Refusal) {
	switch {
	case !p.NeedsCandor():
		return hybrid.Quote{Direct: !p.isSensitive()}, nil
	case n.problem != nil:
		return hybrid.Quote{}, n.problem
	default:
		return hybrid.Quote{}, errNoCandor
	}
}

// isSensitive reports whether the pod has a sensitive container of any policy.
func (p *Pod) isSensitive() bool {
	for i := range p.containers {
		if p.containers[i].Request.Class == hybrid.Sensitive {
			return true
		}
	}
	return false
}

// quoteOne returns the cost of a container on a node. It does not change the node.
func quoteOne(n *hybrid.Node, p *Pod, c *Container) (hybrid.Quote, *Refusal) {
	q, err := n.Quote(&c.Request)
	if err == nil {
		return q, nil
	}
	if _, planned := n.Plan(c.Request); planned != nil {
		err = planned // Plan gives a more detailed refusal than Quote
	}
	_, never := n.NewLike().Quote(&c.Request)
	return q, refused(p, c, err, never != nil)
}

// placeAll places the containers of a pod on n in start order, and returns their total cost. A container that runs to completion
// must fit when it starts, but is not placed.
func placeAll(n *hybrid.Node, p *Pod) (hybrid.Quote, *Refusal) {
	sum := hybrid.Quote{Direct: true}
	for i := range p.containers {
		c := &p.containers[i]
		q, refusal := quoteOne(n, p, c)
		if refusal != nil {
			return hybrid.Quote{}, refusal
		}
		sum.Direct = sum.Direct && q.Direct
		if c.RunsToCompletion {
			continue
		}
		if _, _, err := n.Place(&c.Request); err != nil {
			return hybrid.Quote{}, refused(p, c, err, false)
		}
		addCost(&sum.Cost, &q.Cost)
	}
	return sum, nil
}

// addCost adds the cost of a container to a sum.
func addCost(sum, cost *hybrid.Cost) {
	sum.Shared += cost.Shared
	sum.Whole += cost.Whole
	sum.NUMAs += cost.NUMAs
	sum.L3s += cost.L3s
	sum.Splits += cost.Splits
	sum.Moves += cost.Moves
	sum.FreeWhole = cost.FreeWhole
}
