package fleet_test

import (
	"errors"
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// The reason of a refusal is right, no matter how long ago no node had room. Since then a node got room, but not the CPUs for the view. The
// fleet still stores this change in the first case, but not in the other cases.
func TestRefusalAfterManyChanges(t *testing.T) {
	for _, turns := range []int{127, 128, 200} { // two changes each, but for the first
		refusedLongAfter(t, turns)
	}
}

func refusedLongAfter(t *testing.T, turns int) {
	t.Helper()
	c := &cell{Fleet: newFleet(t, fleet.Options{})}
	addNode(t, c.Fleet, 0, machine(t, "core:2"))
	addNode(t, c.Fleet, 1, machine(t, "core:1"))
	for i, limit := range []hybrid.Milli{600, 600, 400, 1000} {
		if _, err := c.PlaceOn(fleet.ContainerID(1+i), fleet.NodeID(i/3), &fleet.Request{Class: hybrid.Sensitive, Limit: limit}); err != nil {
			t.Fatal(err)
		}
	}
	asked := fleet.Request{Class: hybrid.Sensitive, Limit: 700}
	if err := sameAsScan(t, c, &asked); !errors.Is(err, hybrid.ErrNoCapacity) {
		t.Fatalf("%v: want no room", err)
	}
	c.Release(3) // the first node has room for 800m now, but on no CPU for 700m
	c.Release(4)
	for range turns {
		c.Release(5)
		if at, err := c.Place(5, &asked); err != nil || at.Node != 1 {
			t.Fatalf("on node %d, %v: want it on the second", at.Node, err)
		}
	}
	if err := sameAsScan(t, c, &asked); !errors.Is(err, hybrid.ErrViewImpossible) {
		t.Errorf("%v after %d turns: want no room for the view", err, turns)
	}
}
