package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// A race ends as all nodes would stand if each were asked.
func TestBest(t *testing.T) {
	machines := []string{"core:8", "numa:2 core:2 pu:2", "numa:2 l3:2 core:2", "core:2 pu:2"}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		c := New(patience)
		var names []string
		var amounts []Amounts
		for i := range rapid.IntRange(1, 20).Draw(rt, "nodes") {
			names = append(names, fmt.Sprint("node-", i))
			amounts = append(amounts, Amounts{CPU: 8000, FreeCPU: hybrid.Milli(1000 * rng.IntN(9)), Memory: 8 << 30, FreeMemory: int64(rng.IntN(9)) << 30})
			if rng.IntN(6) > 0 {
				options := hybrid.Options{MinShared: hybrid.Milli(100 * rng.IntN(5)), Algorithm: hybrid.Algorithm(rng.IntN(2))}
				c.Report(names[i], 1, crowded(t, rng, newNode(t, machines[rng.IntN(len(machines))], options)), start)
			}
			for j := range rng.IntN(3) {
				c.Bound(names[i], pod(t, fmt.Sprintf("bound-%d-%d", i, j), draw(rng, "app")), start)
			}
		}
		for i := range 8 {
			p := anyPod(t, rng, fmt.Sprint("pod-", i))
			var race Race
			for at, name := range names {
				race.Enter(at, c.Seat(name), p, amounts[at])
			}
			most := rng.IntN(len(names)+1) + 1
			if got, ok := race.Best(p, most, nil); !ok || !slices.Equal(got, naiveBest(c, p, names, amounts, most)) {
				rt.Fatalf("%+v: %v, %v, want %v", p.containers, got, ok, naiveBest(c, p, names, amounts, most))
			}
		}
	})
}

// naiveBest asks every node.
func naiveBest(c *Cluster, p *Pod, names []string, amounts []Amounts, most int) []int {
	var fits []int
	ranks := make([]fleet.Rank, len(names))
	for at, name := range names {
		ranks[at] = c.Rank(name, p, amounts[at])
		if c.Fits(name, p) == nil {
			fits = append(fits, at)
		}
	}
	slices.SortStableFunc(fits, func(a, b int) int {
		switch {
		case ranks[a] < ranks[b]:
			return -1
		case ranks[a] > ranks[b]:
			return 1
		default:
			return 0
		}
	})
	return fits[:min(most, len(fits))]
}

// anyPod draws a pod of one container, or of several, with a wish at times.
func anyPod(t *testing.T, rng *rand.Rand, uid string) *Pod {
	var all []Container
	for i := range 1 + rng.IntN(4)/3 {
		one := draw(rng, fmt.Sprint("c", i))
		one.Request.Policy = hybrid.Policy(rng.IntN(2))
		if rng.IntN(6) == 0 {
			one.Request.Wish = hybrid.Wish(rng.IntN(5))
		}
		all = append(all, one)
	}
	return pod(t, uid, all...)
}

// crowded gives a node containers until it has no room for some.
func crowded(t *testing.T, rng *rand.Rand, n *hybrid.Node) *hybrid.Node {
	for i := range rng.IntN(12) {
		one := draw(rng, "app")
		one.Request.ID = fmt.Sprintf("on-%d/app", i)
		if rng.IntN(10) == 0 {
			one.Request.Wish = hybrid.Wish(rng.IntN(5))
		}
		_, _, _ = n.Place(&one.Request) // it is full when it is full
	}
	return n
}

// What kube-scheduler's loop over nodes is narrowed by, of so many nodes.
func BenchmarkBest(b *testing.B) {
	for _, machine := range []string{"core:16", "pack:2 numa:1 l3:2 core:8 pu:2"} {
		for _, nodes := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d nodes", machine, nodes), func(b *testing.B) { benchmarkBest(b, machine, nodes) })
		}
	}
}

func benchmarkBest(b *testing.B, machine string, nodes int) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(patience)
	var seats []Seat
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		c.Report(name, 1, fill(b, rng, newNode(b, machine, hybrid.Options{MinShared: 500})), start)
		seats = append(seats, c.Seat(name))
	}
	var asked []*Pod
	for i := range 32 {
		asked = append(asked, pod(b, fmt.Sprint("pod-", i), draw(rng, "app")))
	}
	free := Amounts{CPU: 16000, FreeCPU: 4000, Memory: 64 << 30, FreeMemory: 16 << 30}
	var race Race
	var best []int
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := asked[i%len(asked)]
		for at, s := range seats {
			race.Enter(at, s, p, free)
		}
		best, _ = race.Best(p, 64, best[:0])
	}
}
