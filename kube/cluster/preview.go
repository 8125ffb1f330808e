package cluster

import "github.com/candor-project/candor/hybrid"

// A Preview is the allocation of a pod on a node, with its cost.
type Preview struct {
	Grants []hybrid.Grant // of the containers that stay; none on a node without a report
	Shared hybrid.Milli   // shared time that it adds
	Moves  int            // moved fractions of other pods
}

// Preview returns the allocation that Reserve would make now, and changes nothing.
func (c *Cluster) Preview(name string, p *Pod) (v Preview, refusal *Refusal) {
	n := c.findAny(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	quote, refusal := n.ask(p)
	if refusal != nil || n.base == nil {
		return v, refusal
	}
	then := copyOf(n.now, nil)
	placed := reservation{pod: p, waiting: p.lasting}
	placed.place(then)
	for i := range p.lasting {
		if g, ok := then.Grant(p.lasting[i].Request.ID); ok {
			v.Grants = append(v.Grants, g)
		}
	}
	v.Shared, v.Moves = then.Shared()-n.now.Shared(), quote.Cost.Moves
	return v, nil
}

// Node returns a node with all that it is known to hold, nil where it has not reported. It is a copy.
func (c *Cluster) Node(name string) *hybrid.Node {
	n := c.find(name)
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now == nil {
		return nil
	}
	return copyOf(n.now, nil)
}
