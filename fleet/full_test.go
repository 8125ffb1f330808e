package fleet_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// The index finds the same node as the scan in a full cell, in which few nodes have room and many nodes nearly have room.
func TestIndexIsExactAtFullLoad(t *testing.T) {
	for order := fleet.Candor; order <= fleet.Most; order++ {
		for _, algorithm := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
			for _, sensitive := range []float64{0, 0.5, 1} {
				t.Run(fmt.Sprintf("%v/%v/%v", order, algorithm, sensitive), func(t *testing.T) {
					c := newCell(t, 100, fleet.Options{Order: order, Hybrid: hybrid.Options{Algorithm: algorithm}}, sensitive)
					c.policy = hybrid.Policy(order % 2)
					c.fill(10, 0)
					placed, refused, views := 0, 0, 0
					for range 400 {
						c.end()
						for range 2 {
							r := c.next()
							if errors.Is(sameAsScan(t, c, r), hybrid.ErrViewImpossible) {
								views++
							}
							if c.place(r) {
								placed++
							} else {
								refused++
							}
						}
					}
					c.CheckIndex(t)
					t.Logf("%d placed, %d refused, %d of them for the view, totals %+v", placed, refused, views, c.Totals())
					if placed < 100 || refused < 100 {
						t.Errorf("%d placed and %d refused: want 100 of each at least", placed, refused)
					}
					if byView := sensitive == 1 && c.policy == hybrid.Strict; byView != (views > 0) && sensitive != 0.5 {
						t.Errorf("%d refused for the view", views)
					}
				})
			}
		}
	}
}

// sameAsScan compares a decision with the decision of the scan, and returns the decision's error.
func sameAsScan(t *testing.T, c *cell, r *fleet.Request) error {
	t.Helper()
	want, wantErr := c.Scan(r)
	if got, err := c.Choose(r); got != want || !errors.Is(err, wantErr) {
		t.Fatalf("%+v: node %d, %v; the scan finds %d, %v", *r, got, err, want, wantErr)
	}
	return wantErr
}

// Decisions, placements and releases allocate no memory, except for a new block of the index now and then.
func TestNoAllocations(t *testing.T) {
	for order := fleet.Candor; order <= fleet.Most; order++ {
		t.Run(order.String(), func(t *testing.T) {
			c := newCell(t, 200, fleet.Options{Order: order}, 0.5)
			c.fill(10, 500)
			if n := testing.AllocsPerRun(1000, func() { c.Choose(c.next()) }); n > 0 {
				t.Errorf("%.0f allocations a decision", n)
			}
			if n := testing.AllocsPerRun(1000, func() { c.end(); c.place(c.next()) }); n > 1 {
				t.Errorf("%.0f allocations a container", n)
			}
		})
	}
}
