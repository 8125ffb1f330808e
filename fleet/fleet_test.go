package fleet_test

import (
	"errors"
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

func machine(t testing.TB, description string) *topology.Machine {
	t.Helper()
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newFleet(t testing.TB, o fleet.Options) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func addNode(t testing.TB, f *fleet.Fleet, id fleet.NodeID, m *topology.Machine, capacity ...int64) {
	t.Helper()
	if err := f.AddNode(id, m, capacity); err != nil {
		t.Fatal(err)
	}
}

// Containers are placed, refused, released, and sent away with their node.
func TestLife(t *testing.T) {
	f := newFleet(t, fleet.Options{Resources: []string{"memory"}})
	four := machine(t, "core:4")
	addNode(t, f, 0, four, 100)
	addNode(t, f, 3, four, 100)
	place := func(c fleet.ContainerID, r fleet.Request, want fleet.NodeID, wantErr error) {
		t.Helper()
		got, err := f.Place(c, &r)
		if got.Node != want || !errors.Is(err, wantErr) {
			t.Errorf("container %d: on %d, %v; want %d, %v", c, got.Node, err, want, wantErr)
		}
	}
	place(0, fleet.Request{Limit: 3500, Resources: []int64{60}}, 0, nil)
	place(0, fleet.Request{Limit: 500}, fleet.Nowhere, hybrid.ErrIDTaken)
	place(1, fleet.Request{Limit: 1000, Resources: []int64{50}}, 3, nil)
	place(2, fleet.Request{Limit: 100, Resources: []int64{51}}, fleet.Nowhere, hybrid.ErrNoCapacity)
	place(2, fleet.Request{Limit: 0}, fleet.Nowhere, hybrid.ErrBadRequest)
	place(2, fleet.Request{Class: hybrid.Flexible, Limit: 2500}, 3, nil)
	place(3, fleet.Request{Limit: 1000, Resources: []int64{0}}, fleet.Nowhere, hybrid.ErrNoCapacity)
	if got := f.Totals(); got != (fleet.Totals{Nodes: 2, Used: 2, Containers: 3, Capacity: 8000, Sensitive: 4500, Guaranteed: 2500}) {
		t.Errorf("totals %+v", got)
	}
	gone, err := f.RemoveNode(3)
	if err != nil || len(gone) != 2 || gone[0] != 1 || gone[1] != 2 || f.Where(1) != fleet.Nowhere {
		t.Errorf("removed: %v, %v", gone, err)
	}
	if cost, ok := f.Release(0); !ok || cost.Shared != 0 {
		t.Errorf("released: %+v, %v", cost, ok)
	}
	if got := f.Totals(); got != (fleet.Totals{Nodes: 1, Capacity: 4000}) {
		t.Errorf("totals at the end %+v", got)
	}
}
