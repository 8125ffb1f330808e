package fleet_test

import (
	"errors"
	"slices"
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

// Containers are placed, refused, released, and removed with their node.
func TestPlaceAndRelease(t *testing.T) {
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
	place(0, fleet.Request{Limit: 500}, fleet.NoNode, hybrid.ErrIDTaken)
	place(1, fleet.Request{Limit: 1000, Resources: []int64{50}}, 3, nil)
	place(2, fleet.Request{Limit: 100, Resources: []int64{51}}, fleet.NoNode, hybrid.ErrNoCapacity)
	place(2, fleet.Request{Limit: 0}, fleet.NoNode, hybrid.ErrBadRequest)
	place(2, fleet.Request{Class: hybrid.Flexible, Limit: 2500}, 3, nil)
	place(3, fleet.Request{Limit: 1000, Resources: []int64{0}}, fleet.NoNode, hybrid.ErrNoCapacity)
	if got := f.Totals(); got != (fleet.Totals{Nodes: 2, Used: 2, Containers: 3, Capacity: 8000, Sensitive: 4500, Guaranteed: 2500}) {
		t.Errorf("totals %+v", got)
	}
	gone, err := f.RemoveNode(3)
	if err != nil || len(gone) != 2 || gone[0] != 1 || gone[1] != 2 || f.NodeOf(1) != fleet.NoNode {
		t.Errorf("removed: %v, %v", gone, err)
	}
	if cost, ok := f.Release(0); !ok || cost.Shared != 0 {
		t.Errorf("released: %+v, %v", cost, ok)
	}
	if got := f.Totals(); got != (fleet.Totals{Nodes: 1, Capacity: 4000}) {
		t.Errorf("totals at the end %+v", got)
	}
}

// RemoveNode returns the containers in the order of their arrival, even if the last container has reused the handle of a released container.
func TestRemoveNodeByArrival(t *testing.T) {
	f := newFleet(t, fleet.Options{})
	addNode(t, f, 0, machine(t, "core:4"))
	for _, c := range []fleet.ContainerID{5, 6, 7} {
		if _, err := f.Place(c, &fleet.Request{Limit: 500}); err != nil {
			t.Fatal(err)
		}
	}
	f.Release(5)
	if _, err := f.Place(1, &fleet.Request{Limit: 500}); err != nil {
		t.Fatal(err)
	}
	if gone, err := f.RemoveNode(0); err != nil || !slices.Equal(gone, []fleet.ContainerID{6, 7, 1}) {
		t.Errorf("%v, %v; want 6, 7, 1", gone, err)
	}
}

// Invalid arguments are refused, and the fleet does not change.
func TestBadInput(t *testing.T) {
	f := newFleet(t, fleet.Options{Order: fleet.Least, Resources: resources[:3]})
	four := machine(t, "core:4")
	addNode(t, f, 0, four, 10, 10, 10)
	errs := map[string]error{}
	_, errs[`order 9: must be one of candor, paper, least, most`] = fleet.New(fleet.Options{Order: 9})
	_, errs["16 resources besides CPU: the maximum is 15"] = fleet.New(fleet.Options{Resources: make([]string, 16)})
	errs["node 0: there is one already"] = f.AddNode(0, four, []int64{1, 1, 1})
	errs["node -1: must be a number from 0 to 1048575"] = f.AddNode(-1, four, nil)
	errs[`node 1: capacity of 1 resources besides CPU: must be 3: memory, gpu, disk`] = f.AddNode(1, four, []int64{1})
	errs["node 1: gpu -1: must be 0 to 17592186044416"] = f.AddNode(1, four, []int64{1, -1, 1})
	_, errs["node 7: there is none"] = f.RemoveNode(7)
	_, errs["node 8: there is none"] = f.ChangeNode(8, four, nil)
	_, errs["no capacity"] = f.Place(0, &fleet.Request{Limit: 100, Resources: []int64{1, 1, fleet.MaxAmount}})
	_, errs["bad request: disk -1: must be 0 to 17592186044416"] = f.Place(0, &fleet.Request{Limit: 100, Resources: []int64{1, 1, -1}})
	_, errs[`bad request: 1 resources besides CPU: must be 3: memory, gpu, disk`] = f.Place(0, &fleet.Request{Limit: 100, Resources: []int64{1}})
	_, errs["bad request: container -1: must be a number from 0 to 67108863"] = f.Place(-1, &fleet.Request{Limit: 100})
	var order fleet.Order
	errs[`order "best": must be one of candor, paper, least, most`] = order.UnmarshalText([]byte("best"))
	for want, err := range errs {
		if err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if got := f.Totals(); got != (fleet.Totals{Nodes: 1, Capacity: 4000}) {
		t.Errorf("totals %+v", got)
	}
}

// Least chooses the node with the largest free share, and Most the node with the smallest.
func TestShares(t *testing.T) {
	for _, order := range []fleet.Order{fleet.Least, fleet.Most} {
		f := newFleet(t, fleet.Options{Order: order, Resources: []string{"memory", "gpu"}})
		addNode(t, f, 0, machine(t, "core:7"), 3000, 0)
		addNode(t, f, 1, machine(t, "core:3"), 7000, 0)
		addNode(t, f, 2, machine(t, "core:6"), 977, 0)
		r := fleet.Request{Limit: 1000, Class: hybrid.Flexible}
		for c, want := range map[fleet.Order][]fleet.NodeID{fleet.Least: {0, 2, 0, 1}, fleet.Most: {1, 1, 1, 2}}[order] {
			if got, err := f.Place(fleet.ContainerID(c), &r); got.Node != want || err != nil {
				t.Errorf("%v: container %d on %d, %v; want %d", order, c, got.Node, err, want)
			}
		}
	}
}
