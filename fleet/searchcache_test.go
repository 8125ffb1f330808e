package fleet_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A repeated query gives the right node, regardless of the changes of nodes and blocks since the first query: after few changes or more
// changes than the fleet stores, and even if searches retain few candidates.
func TestCachedSearches(t *testing.T) {
	for order := fleet.Candor; order <= fleet.Most; order++ {
		for _, algorithm := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
			t.Run(fmt.Sprint(order, "/", algorithm), func(t *testing.T) {
				if algorithm == hybrid.Candor {
					defer fleet.LimitCandidates()()
				}
				c := newCell(t, 400, fleet.Options{Order: order, Hybrid: hybrid.Options{Algorithm: algorithm}}, 0.5)
				c.fill(5, 0)
				var asked []fleet.Request
				for range 12 {
					r := *c.next()
					r.Resources = append([]int64(nil), r.Resources...)
					asked = append(asked, r)
				}
				placed, refused := 0, 0
				for i := range 1500 {
					if i%50 == 0 {
						c.CheckIndex(t)
					}
					r := asked[min(c.random.IntN(len(asked)), c.random.IntN(len(asked)))] // the last ones seldom
					sameAsScan(t, c, &r)
					if c.place(&r) {
						placed++
					} else {
						refused++
					}
					for c.random.IntN(2) > 0 {
						c.end()
					}
				}
				if placed < 100 || refused == 0 {
					t.Errorf("%d placed and %d refused: want 100 and 1 at least", placed, refused)
				}
			})
		}
	}
}

// A repeated query finds a node of a new kind that has the size of the previous nodes.
func TestKindAddedAfterQuery(t *testing.T) {
	c := &cell{Fleet: newFleet(t, fleet.Options{Resources: []string{"memory"}})}
	four := machine(t, "core:4")
	r := fleet.Request{Class: hybrid.Flexible, Limit: 1000, Resources: []int64{500}}
	for id, memory := range []int64{1020, 1000, 980, 1010, 950} {
		addNode(t, c.Fleet, fleet.NodeID(id), four, memory)
		sameAsScan(t, c, &r)
	}
}

// A search resumes correctly after most nodes, and blocks of all sizes, have been removed.
func TestSearchAfterRemovals(t *testing.T) {
	small, large := machine(t, "core:4"), machine(t, "core:16")
	for name, test := range map[string]struct {
		last        *topology.Machine
		first, gone fleet.NodeID // so many are removed, from that one on; then the last
	}{
		"the best ones": {small, 0, 189},
		"all but one":   {large, 1, 199},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cell{Fleet: newFleet(t, fleet.Options{Order: fleet.Least})}
			for id := range fleet.NodeID(200) {
				addNode(t, c.Fleet, id, small)
			}
			addNode(t, c.Fleet, 200, test.last)
			r := fleet.Request{Class: hybrid.Flexible, Limit: 1000}
			sameAsScan(t, c, &r)
			for id := range test.gone {
				if _, err := c.RemoveNode(test.first + id); err != nil {
					t.Fatal(err)
				}
			}
			if test.last == large {
				if _, err := c.RemoveNode(200); err != nil {
					t.Fatal(err)
				}
			}
			sameAsScan(t, c, &r)
			c.CheckIndex(t)
		})
	}
}

// Requests that differ in a single field are not equal.
func TestRequestEquals(t *testing.T) {
	asked := fleet.Request{Class: hybrid.Flexible, Limit: 1000, Guarantee: 500, Resources: []int64{5, 6}, Spread: 7}
	for name, change := range map[string]func(*fleet.Request){
		"class":     func(r *fleet.Request) { r.Class = hybrid.Sensitive },
		"policy":    func(r *fleet.Request) { r.Policy = hybrid.BestEffort },
		"wish":      func(r *fleet.Request) { r.Topology = hybrid.SingleNUMA },
		"limit":     func(r *fleet.Request) { r.Limit++ },
		"guarantee": func(r *fleet.Request) { r.Guarantee++ },
		"resources": func(r *fleet.Request) { r.Resources = []int64{5, 7} },
		"fewer":     func(r *fleet.Request) { r.Resources = []int64{5} },
		"spread":    func(r *fleet.Request) { r.Spread++ },
	} {
		if other := asked; !fleet.RequestsEqual(&asked, &other) {
			t.Error("a copy is another question")
		} else if change(&other); fleet.RequestsEqual(&asked, &other) {
			t.Errorf("another %s is the same question", name)
		}
	}
	if fields := reflect.TypeFor[fleet.Request]().NumField(); fields != 7 {
		t.Errorf("a request has %d fields, of which 7 are looked at here", fields)
	}
}
