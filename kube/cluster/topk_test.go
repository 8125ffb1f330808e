package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// TestBest: the search returns the same nodes as a query of every node, after any changes since the last search.
func TestBest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		c := New(patience)
		var names []string
		var amounts []Amounts
		var seats []NodeRef
		for i := range rapid.IntRange(1, 20).Draw(rt, "nodes") {
			name, a := fmt.Sprint("node-", i), Amounts{CPU: 8000, FreeCPU: hybrid.Milli(1000 * rng.IntN(9)), Memory: 8 << 30, FreeMemory: int64(rng.IntN(9)) << 30}
			if rng.IntN(6) > 0 {
				c.Report(name, 1, crowded(t, rng, anyNode(t, rng)), start)
			}
			names, amounts, seats = append(names, name), append(amounts, a), append(seats, c.NodeRef(name, a))
		}
		var crowds ResultCaches
		var last *Pod
		for i := range 8 {
			for range rng.IntN(2 * len(names)) {
				happen(t, rng, c, names[rng.IntN(len(names))])
			}
			p := anyPod(t, rng, fmt.Sprint("pod-", i))
			if i > 0 && rng.IntN(3) == 0 { // one more of its crowd
				p = pod(t, fmt.Sprint("pod-", i), slices.Clone(last.containers)...)
			}
			last = p
			var race TopK
			race.Start(p, crowds.For(p, len(seats)))
			for at := range seats {
				race.Add(at, &seats[at])
			}
			most := rng.IntN(len(names)+1) + 1
			if got, ok := race.Best(most, nil); !ok || !slices.Equal(got, naiveBest(c, p, names, amounts, most)) {
				rt.Fatalf("%+v: %v, %v, want %v", p.containers, got, ok, naiveBest(c, p, names, amounts, most))
			}
		}
	})
}

// TestManyCrowds: more kinds of pods than the cache holds, and pods that differ only in their memory.
func TestManyCrowds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(patience)
	var names []string
	var amounts []Amounts
	var seats []NodeRef
	for i := range 5 {
		name, a := fmt.Sprint("node-", i), Amounts{CPU: 8000, FreeCPU: 8000, Memory: 8 << 30, FreeMemory: int64(i+1) << 30}
		c.Report(name, 1, crowded(t, rng, anyNode(t, rng)), start)
		names, amounts, seats = append(names, name), append(amounts, a), append(seats, c.NodeRef(name, a))
	}
	var race TopK
	var crowds ResultCaches
	for i := range 6 * maxCaches { // of three times as many crowds, each of them twice
		containers := []Container{sensitive("app", hybrid.Milli(100*(1+i/3%maxCaches)))}
		p, err := NewPod(fmt.Sprint("pod-", i), "default", "p", int64(i%3)<<30, containers)
		if err != nil {
			t.Fatal(err)
		}
		race.Start(p, crowds.For(p, len(seats)))
		for at := range seats {
			race.Add(at, &seats[at])
		}
		if got, _ := race.Best(len(seats), nil); !slices.Equal(got, naiveBest(c, p, names, amounts, len(seats))) {
			t.Fatalf("pod %d: %v, want %v", i, got, naiveBest(c, p, names, amounts, len(seats)))
		}
	}
	if len(crowds.caches) != maxCaches {
		t.Errorf("%d crowds are remembered, want %d", len(crowds.caches), maxCaches)
	}
}

// TestRefusalOfOwnPod: a node that refuses a pod because it already has the pod does not refuse other pods with the same
// requests.
func TestRefusalOfOwnPod(t *testing.T) {
	c := New(patience)
	n, there := newNode(t, "numa:2 core:2 pu:2", hybrid.Options{}), pod(t, "there", sensitive("app", 1000))
	create(t, n, there)
	c.Report("node-1", 1, n, start)
	seat := c.NodeRef("node-1", Amounts{CPU: 8000, FreeCPU: 8000, Memory: 8 << 30, FreeMemory: 8 << 30})
	var race TopK
	var crowds ResultCaches
	for _, test := range []struct {
		pod  *Pod
		want int
	}{{there, 0}, {pod(t, "other", sensitive("app", 1000)), 1}} {
		race.Start(test.pod, crowds.For(test.pod, 1))
		race.Add(0, &seat)
		if best, ok := race.Best(1, nil); len(best) != test.want || !ok {
			t.Errorf("%s: %v, %v; want %d nodes", test.pod.UID, best, ok, test.want)
		}
	}
}

func anyNode(t *testing.T, rng *rand.Rand) *hybrid.Node {
	machines := []string{"core:8", "numa:2 core:2 pu:2", "numa:2 l3:2 core:2", "core:2 pu:2"}
	options := hybrid.Options{MinShared: hybrid.Milli(100 * rng.IntN(5)), Algorithm: hybrid.Algorithm(rng.IntN(2))}
	return newNode(t, machines[rng.IntN(len(machines))], options)
}

// happen applies a random change to a node that affects the placement of pods.
func happen(t *testing.T, rng *rand.Rand, c *Cluster, name string) {
	uid, version := fmt.Sprint("other-", rng.IntN(20)), c.Version(name)+1
	one := pod(t, uid, draw(rng, "app"))
	switch rng.IntN(7) {
	case 0:
		c.Report(name, version, crowded(t, rng, anyNode(t, rng)), start)
	case 1:
		c.NoReport(name, version, Absence(rng.IntN(4)))
	case 2:
		one.Planned, one.Started = rng.IntN(2) == 0, rng.IntN(2) == 0
		c.Bound(name, one, start.Add(patience))
	case 3:
		c.Reserve(name, one, start)
	case 4:
		c.HoldFor(name, one, map[string]bool{}, start)
	case 5:
		c.Forget(uid)
	case 6:
		c.Expire(start.Add(patience + time.Duration(rng.IntN(3))*patience/2))
	}
}

// naiveBest queries every node.
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
			one.Request.Topology = hybrid.TopologyPolicy(rng.IntN(5))
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
			one.Request.Topology = hybrid.TopologyPolicy(rng.IntN(5))
		}
		_, _, _ = n.Place(&one.Request) // it is full when it is full
	}
	return n
}

// BenchmarkBest measures the search that preselects nodes for kube-scheduler, by the number of nodes: for pods with
// repeated requests, and for pods with different requests.
func BenchmarkBest(b *testing.B) {
	for _, machine := range []string{"core:16", "pack:2 numa:1 l3:2 core:8 pu:2"} {
		for _, nodes := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d nodes/crowds", machine, nodes), func(b *testing.B) { benchmarkBest(b, machine, nodes, 32) })
			b.Run(fmt.Sprintf("%s/%d nodes/other", machine, nodes), func(b *testing.B) { benchmarkBest(b, machine, nodes, 10*maxCaches) })
		}
	}
}

func benchmarkBest(b *testing.B, machine string, nodes, pods int) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(patience)
	free := Amounts{CPU: 16000, FreeCPU: 4000, Memory: 64 << 30, FreeMemory: 16 << 30}
	var seats []NodeRef
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		c.Report(name, 1, fill(b, rng, newNode(b, machine, hybrid.Options{MinShared: 500})), start)
		seats = append(seats, c.NodeRef(name, free))
	}
	var asked []*Pod
	for i := range pods {
		one := draw(rng, "app")
		one.Request.Limit += hybrid.Milli(i) // no two ask for the same
		asked = append(asked, pod(b, fmt.Sprint("pod-", i), one))
	}
	var race TopK
	var crowds ResultCaches
	var best []int
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := asked[i%len(asked)]
		race.Start(p, crowds.For(p, nodes))
		for at := range seats {
			race.Add(at, &seats[at])
		}
		best, _ = race.Best(64, best[:0])
	}
}
