package cluster

import (
	"github.com/candor-project/candor/hybrid"
)

// ask returns the cost of a pod on the node, or the reason why the node cannot take it.
func (n *node) ask(p *Pod) (hybrid.Quote, *Refusal) {
	changes := n.changes.Load()
	if n.last.pod == p && n.last.changes == changes {
		return n.last.quote, n.last.refusal
	}
	a := answer{pod: p, changes: changes}
	a.quote, a.refusal = n.find(p)
	n.last = a
	return a.quote, a.refusal
}

func (n *node) find(p *Pod) (hybrid.Quote, *Refusal) {
	switch {
	case len(p.containers) == 0:
		return hybrid.Quote{Direct: true}, nil
	case n.base == nil:
		return n.findWithout(p)
	case n.silent && p.NeedsCandor():
		return hybrid.Quote{}, silent
	case n.holds(p):
		return n.findBeside(p, map[string]bool{p.UID: true})
	case n.isHeld():
		return hybrid.Quote{}, waiting
	}
	if p.one != nil {
		if q, verdict := n.summary.Quote(&p.one.Request); verdict == hybrid.Known && n.summary.IsFlat() {
			return q, nil
		}
	}
	q, refusal := quoteAll(n.now, p)
	if refusal != nil && n.unclaimed != nil {
		if _, itself := quoteAll(n.unclaimed, p); itself == nil {
			refusal = waiting
		}
	}
	return q, refusal
}

// quoteAll returns the costs of a pod on the node in its present state.
func quoteAll(n *hybrid.Node, p *Pod) (hybrid.Quote, *Refusal) {
	if p.one != nil {
		return quoteOne(n, p, p.one)
	}
	if _, refusal := quoteOne(n, p, &p.containers[0]); refusal != nil {
		return hybrid.Quote{}, refusal
	}
	return placeAll(copyOf(n, nil), p)
}

// findWithout is find for a node without a report.
func (n *node) findWithout(p *Pod) (hybrid.Quote, *Refusal) {
	switch {
	case !p.NeedsCandor():
		return hybrid.Quote{Direct: !p.isSensitive()}, nil
	case n.problem != nil:
		return hybrid.Quote{}, n.problem
	default:
		return hybrid.Quote{}, noCandor
	}
}

// isSensitive reports whether a container wants a view, even if it would do without.
func (p *Pod) isSensitive() bool {
	for i := range p.containers {
		if p.containers[i].Request.Class == hybrid.Sensitive {
			return true
		}
	}
	return false
}

// quoteOne returns the cost of a container on a node in its present state.
func quoteOne(n *hybrid.Node, p *Pod, c *Container) (hybrid.Quote, *Refusal) {
	q, err := n.Quote(&c.Request)
	if err == nil {
		return q, nil
	}
	if _, planned := n.Plan(c.Request); planned != nil {
		err = planned // a more detailed refusal
	}
	_, never := n.NewLike().Quote(&c.Request)
	return q, refused(p, c, err, never != nil)
}

// placeAll places the containers of a pod in the order of their start, and returns the total cost.
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
		add(&sum.Cost, &q.Cost)
	}
	return sum, nil
}

// add adds the cost of a container.
func add(sum, cost *hybrid.Cost) {
	sum.Shared += cost.Shared
	sum.Whole += cost.Whole
	sum.NUMAs += cost.NUMAs
	sum.L3s += cost.L3s
	sum.Splits += cost.Splits
	sum.Moves += cost.Moves
	sum.FreeWhole = cost.FreeWhole
}
