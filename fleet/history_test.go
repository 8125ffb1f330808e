package fleet_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

var resources = []string{"memory", "gpu", "disk", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"}

// A history is a random sequence of operations on a small fleet.
type history struct {
	*rapid.T
	fleet    *fleet.Fleet
	scarce   int64 // the most of a further resource that a node has
	machines []*topology.Machine
	resource int
	limits   []hybrid.Milli
	running  []fleet.ContainerID
	next     fleet.ContainerID
	last     *fleet.Request
	nodes    []bool
}

var machineShapes = []string{"core:2", "core:4", "core:8", "core:8 pu:2", "numa:2 core:3", "core:20", "pack:2 l3:2 core:2 pu:2", "core:70"}

func newRandomHistory(t *rapid.T, tb testing.TB, order fleet.Order) *history {
	o := fleet.Options{Order: order, Resources: resources[:rapid.SampledFrom([]int{0, 1, 1, 2, 3, 15}).Draw(t, "resources")]}
	o.Hybrid.Algorithm = hybrid.Algorithm(rapid.IntRange(0, 1).Draw(t, "algorithm"))
	o.Hybrid.MinShared = hybrid.Milli(rapid.SampledFrom([]int{0, 0, 0, 500, 1500}).Draw(t, "min shared"))
	o.Hybrid.RescueMoves = rapid.SampledFrom([]int{0, 0, -1, 2}).Draw(t, "rescue moves")
	h := &history{T: t, fleet: newFleet(tb, o), resource: len(o.Resources), nodes: make([]bool, rapid.IntRange(1, 90).Draw(t, "nodes"))}
	shapes := machineShapes
	if rapid.Bool().Draw(t, "flat") {
		shapes = machineShapes[:3]
	}
	for range rapid.IntRange(1, 3).Draw(t, "machines") {
		h.machines = append(h.machines, machine(tb, rapid.SampledFrom(shapes).Draw(t, "machine")))
	}
	limit := rapid.OneOf(rapid.IntRange(10, 3000), rapid.SampledFrom([]int{100, 200, 500, 800, 1000, 1500, 2000}), rapid.IntRange(300, 999))
	for range rapid.IntRange(1, 12).Draw(t, "limits") {
		h.limits = append(h.limits, hybrid.Milli(limit.Draw(t, "limit")))
	}
	h.scarce = rapid.SampledFrom([]int64{10, 40, 1000, 1 << 38, fleet.MaxAmount}).Draw(t, "scarce")
	for id := range h.nodes {
		h.addNode(fleet.NodeID(id))
	}
	return h
}

func (h *history) capacity() []int64 {
	var capacity []int64
	for range h.resource {
		capacity = append(capacity, rapid.SampledFrom([]int64{h.scarce, h.scarce / 2, h.scarce / 3, h.scarce - h.scarce/50, h.scarce - h.scarce/70, 1, 0}).Draw(h.T, "capacity"))
	}
	return capacity
}

func (h *history) machine() *topology.Machine { return rapid.SampledFrom(h.machines).Draw(h.T, "of") }

func (h *history) addNode(id fleet.NodeID) {
	if err := h.fleet.AddNode(id, h.machine(), h.capacity()); err != nil {
		h.Fatal(err)
	}
	h.nodes[id] = true
}

func (h *history) request(sensitive int) *fleet.Request {
	r := &fleet.Request{Limit: rapid.SampledFrom(h.limits).Draw(h.T, "limit")}
	if rapid.IntRange(0, 9).Draw(h.T, "class") >= sensitive {
		r.Class = hybrid.Flexible
		if rapid.IntRange(0, 9).Draw(h.T, "guaranteed less") == 0 {
			r.Guarantee = rapid.SampledFrom([]hybrid.Milli{hybrid.NoGuarantee, 1, r.Limit / 2}).Draw(h.T, "guarantee")
		}
	}
	if rapid.IntRange(0, 9).Draw(h.T, "policy") == 0 {
		r.Policy = hybrid.BestEffort
	}
	if rapid.IntRange(0, 19).Draw(h.T, "wishes") == 0 {
		r.Topology = hybrid.TopologyPolicy(rapid.IntRange(0, 4).Draw(h.T, "wish"))
	}
	if rapid.IntRange(0, 9).Draw(h.T, "spreads") == 0 {
		r.Spread = rapid.Uint64Range(1, 2).Draw(h.T, "spread")
	}
	for range h.resource {
		r.Resources = append(r.Resources, rapid.Int64Range(0, 1+h.scarce/20).Draw(h.T, "amount"))
	}
	return r
}

// place places a container on the node that the scan of all nodes chooses, and counts the outcome in seen.
func (h *history) place(r *fleet.Request, seen map[string]int) {
	want, wantErr := h.fleet.Scan(r)
	placed, err := h.fleet.Place(h.next, r)
	if placed.Node != want || !errors.Is(err, wantErr) {
		h.Fatalf("%+v: on node %d, %v; the scan finds %d, %v", *r, placed.Node, err, want, wantErr)
	}
	switch err {
	case nil:
		h.running = append(h.running, h.next)
		h.next++
		seen["placed"]++
		if placed.Cost.Shared > 0 {
			seen["shared"]++
		}
	default:
		seen[err.Error()]++
	}
}

// step performs a random operation.
func (h *history) step(sensitive int, seen map[string]int) {
	h.fleet.Expect(fleet.ContainerID(rapid.OneOf(rapid.Int32Range(0, int32(h.next)), rapid.Int32()).Draw(h.T, "expected")))
	switch what := rapid.IntRange(0, 99).Draw(h.T, "what"); {
	case what < 65 || len(h.running) == 0:
		if h.last == nil || rapid.IntRange(0, 3).Draw(h.T, "another") == 0 {
			h.last = h.request(sensitive)
		}
		h.place(h.last, seen)
	case what < 97:
		i := rapid.IntRange(0, len(h.running)-1).Draw(h.T, "which")
		if _, ok := h.fleet.Release(h.running[i]); !ok {
			h.Fatalf("container %d is not there", h.running[i])
		}
		h.running = append(h.running[:i], h.running[i+1:]...)
	default:
		h.changeNode(fleet.NodeID(rapid.IntRange(0, len(h.nodes)-1).Draw(h.T, "node")), what, seen)
	}
}

// changeNode removes a node, adds it again, or changes it.
func (h *history) changeNode(id fleet.NodeID, what int, seen map[string]int) {
	var gone []fleet.ContainerID
	var err error
	switch {
	case !h.nodes[id]:
		h.addNode(id)
	case what == 99:
		gone, err = h.fleet.ChangeNode(id, h.machine(), h.capacity())
		seen["changed"]++
	default:
		gone, err = h.fleet.RemoveNode(id)
		h.nodes[id] = false
		seen["removed"]++
	}
	if err != nil {
		h.Fatal(err)
	}
	for _, c := range gone {
		for i := range h.running {
			if h.running[i] == c {
				h.running = append(h.running[:i], h.running[i+1:]...)
				break
			}
		}
		if h.fleet.NodeOf(c) != fleet.NoNode {
			h.Fatalf("container %d is still on a node", c)
		}
	}
}

// After every operation, the index finds the same node as the scan of all nodes.
func TestIndexIsExact(t *testing.T) {
	for order := fleet.Candor; order <= fleet.Most; order++ {
		t.Run(order.String(), func(t *testing.T) {
			seen := map[string]int{}
			rapid.Check(t, func(rt *rapid.T) {
				h := newRandomHistory(rt, t, order)
				sensitive := rapid.SampledFrom([]int{0, 3, 5, 10}).Draw(rt, "tenths sensitive")
				for range rapid.IntRange(1, 300).Draw(rt, "steps") {
					h.step(sensitive, seen)
				}
				h.fleet.CheckIndex(t)
				checkTotals(rt, h)
			})
			t.Log(seen)
			for _, what := range []string{"placed", "shared", "removed", "changed", hybrid.ErrNoCapacity.Error()} {
				if seen[what] == 0 && !testing.Short() { // -short draws few cases
					t.Errorf("never: %s", what)
				}
			}
		})
	}
}

// checkTotals compares the totals with sums over all nodes.
func checkTotals(t *rapid.T, h *history) {
	var want fleet.Totals
	got := h.fleet.Totals()
	for id := range h.nodes {
		if n := h.fleet.Node(fleet.NodeID(id)); n != nil {
			count := len(n.Grants())
			want.Nodes++
			want.Used += min(count, 1)
			want.Containers += count
			want.Capacity += n.Capacity()
			want.Sensitive += n.Sensitive()
			want.Guaranteed += n.Guaranteed()
			want.Shared += n.Shared()
		}
	}
	want.Moves = got.Moves
	if got != want || got.Containers != len(h.running) {
		t.Fatalf("totals %+v, want %+v", got, want)
	}
}
