package fleet_test

import (
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// The chosen node is the best by the definition of the order. The test computes the definition from the nodes alone, without the fleet's
// scores.
func TestOrdersByDefinition(t *testing.T) {
	for order := fleet.Candor; order <= fleet.Most; order++ {
		for _, sensitive := range []float64{0, 0.5} {
			c := newCell(t, 60, fleet.Options{Order: order}, sensitive)
			c.fill(1, 0)
			chosen := 0
			for range 300 {
				c.end()
				r := c.next()
				id, err := c.Choose(r)
				if err != nil {
					continue
				}
				best, ok := badness(c, order, id, r)
				if !ok {
					continue // others would have to move; such nodes come last
				}
				chosen++
				for other := range fleet.NodeID(60) {
					if bad, ok := badness(c, order, other, r); ok && bad < best-1e-9 {
						t.Fatalf("%v, %+v: node %d has %v, but node %d %v", order, *r, id, best, other, bad)
					}
				}
				c.place(r)
			}
			if chosen < 100 {
				t.Errorf("%v: %d chosen, want 100 at least", order, chosen)
			}
		}
	}
}

// badness returns the first criterion of an order for a node: lower is better. It returns false if the node has no room.
func badness(c *cell, order fleet.Order, id fleet.NodeID, r *fleet.Request) (float64, bool) {
	n, free := c.Node(id), c.Free(id)
	h := hybrid.Request{ID: "new", Class: r.Class, Policy: r.Policy, Limit: r.Limit}
	q, err := n.Quote(&h)
	if err != nil || !q.Direct || free[0] < r.Resources[0] {
		return 0, false
	}
	cpu := float64(n.Free(hybrid.Flexible)-h.Guaranteed()) / float64(n.Capacity())
	mean := (cpu + float64(free[0]-r.Resources[0])/float64(c.capacities[id])) / 2
	switch {
	case order == fleet.Candor:
		return float64(q.Shared), true
	case order == fleet.Paper && r.Class == hybrid.Sensitive:
		return -float64(q.Whole), true
	case order == fleet.Most:
		return mean, true
	default:
		return -mean, true
	}
}
