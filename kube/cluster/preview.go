package cluster

import "github.com/candor-project/candor/hybrid"

// A Preview is the allocation of a pod on a node and its cost.
type Preview struct {
	Grants []hybrid.Grant // of the containers that do not run to completion; none on a node without a report
	Shared hybrid.Milli   // shared time that the pod adds to hybrid.Node.Shared
	Moves  int            // number of fractions of other pods that move
}

// Preview returns the allocation that Reserve would make now. It changes nothing.
func (c *Cluster) Preview(name string, p *Pod) (v Preview, refusal *Refusal) {
	n := c.lookupOrNew(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	quote, refusal := n.quote(p)
	if refusal != nil || n.base == nil {
		return v, refusal
	}
	scratch := copyOf(n.current, nil)
	placed := reservation{pod: p, waiting: p.lasting}
	placed.place(scratch)
	for i := range p.lasting {
		if g, ok := scratch.Grant(p.lasting[i].Request.ID); ok {
			v.Grants = append(v.Grants, g)
		}
	}
	v.Shared, v.Moves = scratch.Shared()-n.current.Shared(), quote.Cost.Moves
	return v, nil
}

// Node returns a copy of a node's report plus the reservations, or nil if the node has no report.
func (c *Cluster) Node(name string) *hybrid.Node {
	n := c.lookup(name)
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current == nil {
		return nil
	}
	return copyOf(n.current, nil)
}
