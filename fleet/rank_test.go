package fleet_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// The fleet chooses the node with the lowest rank among the nodes that can take the container. This also holds if the test chose the nodes
// of the previous containers.
func TestRank(t *testing.T) {
	four, eight := machine(t, "core:4"), machine(t, "pack:2 numa:1 l3:1 core:2 pu:2")
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet(t, fleet.Options{Resources: []string{"memory"}})
		const nodes = 6
		var scales [nodes]fleet.Scale
		for id := range scales {
			m, memory := four, int64(64)
			if id%2 == 1 {
				m, memory = eight, 100
			}
			addNode(t, f, fleet.NodeID(id), m, memory)
			scales[id] = fleet.NewScale(f.Node(fleet.NodeID(id)).Capacity(), []int64{memory})
		}
		for c := range rapid.IntRange(1, 25).Draw(rt, "containers") {
			r := drawRanked(rt)
			chosen, err := f.Choose(&r)
			best := bestRanked(f, scales[:], &r)
			if err != nil {
				chosen = fleet.NoNode
			}
			if chosen != best {
				rt.Fatalf("container %d %+v: chosen %d, the least rank has %d", c, r, chosen, best)
			}
			on := fleet.NodeID(rapid.IntRange(0, nodes-1).Draw(rt, "on"))
			if p, err := f.PlaceOn(fleet.ContainerID(c), on, &r); (err == nil) != (p.Node == on) {
				rt.Fatalf("placed on %d, wanted %d: %v", p.Node, on, err)
			}
		}
	})
}

func drawRanked(rt *rapid.T) fleet.Request {
	r := fleet.Request{Resources: []int64{int64(rapid.IntRange(0, 20).Draw(rt, "memory"))}}
	r.Class = hybrid.Class(rapid.IntRange(0, 1).Draw(rt, "class"))
	r.Policy = hybrid.Policy(rapid.IntRange(0, 1).Draw(rt, "policy"))
	r.Limit = hybrid.Milli(rapid.IntRange(1, 50).Draw(rt, "limit")) * 100
	return r
}

// bestRanked returns the node with the lowest rank. It evaluates every node.
func bestRanked(f *fleet.Fleet, scales []fleet.Scale, r *fleet.Request) fleet.NodeID {
	best, least := fleet.NoNode, fleet.Rank(0)
	asked := fleet.NewQuery(r)
	for id := range scales {
		n := f.Node(fleet.NodeID(id))
		free := f.Free(fleet.NodeID(id))
		h := hybrid.Request{Class: r.Class, Policy: r.Policy, Limit: r.Limit}
		quote, err := n.Quote(&h)
		if err != nil || free[0] < r.Resources[0] {
			continue
		}
		var s hybrid.Summary
		n.Summarize(&s)
		figures := s.Figures()
		if rank := scales[id].Rank(&asked, &quote, &figures, free); best == fleet.NoNode || rank < least {
			best, least = fleet.NodeID(id), rank
		}
	}
	return best
}
