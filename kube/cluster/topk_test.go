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

// TestBest: the search returns the same nodes as a query of each node, after random changes since the last
// search.
func TestBest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		c := New(patience)
		var names []string
		var amounts []Amounts
		var refs []NodeRef
		for i := range rapid.IntRange(1, 20).Draw(rt, "nodes") {
			name, a := fmt.Sprint("node-", i), Amounts{CPU: 8000, FreeCPU: hybrid.Milli(1000 * rng.IntN(9)), Memory: 8 << 30, FreeMemory: int64(rng.IntN(9)) << 30}
			if rng.IntN(6) > 0 {
				c.Report(name, 1, fillRandomly(t, rng, randomNode(t, rng)), start)
			}
			names, amounts, refs = append(names, name), append(amounts, a), append(refs, c.NodeRef(name, a))
		}
		var caches ResultCaches
		var last *Pod
		for i := range 8 {
			for range rng.IntN(2 * len(names)) {
				applyRandomChange(t, rng, c, names[rng.IntN(len(names))])
			}
			p := randomPod(t, rng, fmt.Sprint("pod-", i))
			if i > 0 && rng.IntN(3) == 0 { // repeat the request of the last pod
				p = pod(t, fmt.Sprint("pod-", i), slices.Clone(last.containers)...)
			}
			last = p
			var search TopK
			search.Start(p, caches.For(p, len(refs)))
			for at := range refs {
				search.Add(at, &refs[at])
			}
			most := rng.IntN(len(names)+1) + 1
			if got, ok := search.Best(most, nil); !ok || !slices.Equal(got, naiveBest(c, p, names, amounts, most)) {
				rt.Fatalf("%+v: got %v, %v, want %v", p.containers, got, ok, naiveBest(c, p, names, amounts, most))
			}
		}
	})
}

// TestMoreRequestsThanCaches searches nodes for more different requests than there are caches, and for pods
// that differ only in their memory. The results are those of a query of each node.
func TestMoreRequestsThanCaches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(patience)
	var names []string
	var amounts []Amounts
	var refs []NodeRef
	for i := range 5 {
		name, a := fmt.Sprint("node-", i), Amounts{CPU: 8000, FreeCPU: 8000, Memory: 8 << 30, FreeMemory: int64(i+1) << 30}
		c.Report(name, 1, fillRandomly(t, rng, randomNode(t, rng)), start)
		names, amounts, refs = append(names, name), append(amounts, a), append(refs, c.NodeRef(name, a))
	}
	var search TopK
	var caches ResultCaches
	for i := range 6 * maxCaches { // three times as many requests as caches, each twice
		containers := []Container{sensitive("app", hybrid.Milli(100*(1+i/3%maxCaches)))}
		p, err := NewPod(fmt.Sprint("pod-", i), "default", "p", int64(i%3)<<30, containers)
		if err != nil {
			t.Fatal(err)
		}
		search.Start(p, caches.For(p, len(refs)))
		for at := range refs {
			search.Add(at, &refs[at])
		}
		if got, _ := search.Best(len(refs), nil); !slices.Equal(got, naiveBest(c, p, names, amounts, len(refs))) {
			t.Fatalf("pod %d: got %v, want %v", i, got, naiveBest(c, p, names, amounts, len(refs)))
		}
	}
	if len(caches.caches) != maxCaches {
		t.Errorf("got %d caches, want %d", len(caches.caches), maxCaches)
	}
}

// TestRefusalOfOwnPod: a node refuses a pod that it already runs. The cached refusal does not apply to other
// pods with the same request.
func TestRefusalOfOwnPod(t *testing.T) {
	c := New(patience)
	n, there := newNode(t, "numa:2 core:2 pu:2", hybrid.Options{}), pod(t, "there", sensitive("app", 1000))
	create(t, n, there)
	c.Report("node-1", 1, n, start)
	ref := c.NodeRef("node-1", Amounts{CPU: 8000, FreeCPU: 8000, Memory: 8 << 30, FreeMemory: 8 << 30})
	var search TopK
	var caches ResultCaches
	for _, test := range []struct {
		pod  *Pod
		want int
	}{{there, 0}, {pod(t, "other", sensitive("app", 1000)), 1}} {
		search.Start(test.pod, caches.For(test.pod, 1))
		search.Add(0, &ref)
		if best, ok := search.Best(1, nil); len(best) != test.want || !ok {
			t.Errorf("%s: got %v, %v; want %d nodes", test.pod.UID, best, ok, test.want)
		}
	}
}

func randomNode(t *testing.T, rng *rand.Rand) *hybrid.Node {
	machines := []string{"core:8", "numa:2 core:2 pu:2", "numa:2 l3:2 core:2", "core:2 pu:2"}
	options := hybrid.Options{MinShared: hybrid.Milli(100 * rng.IntN(5)), Algorithm: hybrid.Algorithm(rng.IntN(2))}
	return newNode(t, machines[rng.IntN(len(machines))], options)
}

// applyRandomChange applies a random event that affects the placement of pods on a node.
func applyRandomChange(t *testing.T, rng *rand.Rand, c *Cluster, name string) {
	uid, version := fmt.Sprint("other-", rng.IntN(20)), c.Version(name)+1
	app := pod(t, uid, draw(rng, "app"))
	switch rng.IntN(7) {
	case 0:
		c.Report(name, version, fillRandomly(t, rng, randomNode(t, rng)), start)
	case 1:
		c.NoReport(name, version, Absence(rng.IntN(4)))
	case 2:
		app.Planned, app.Started = rng.IntN(2) == 0, rng.IntN(2) == 0
		c.Bound(name, app, start.Add(patience))
	case 3:
		c.Reserve(name, app, start)
	case 4:
		c.HoldFor(name, app, map[string]bool{}, start)
	case 5:
		c.Forget(uid)
	case 6:
		c.Expire(start.Add(patience + time.Duration(rng.IntN(3))*patience/2))
	}
}

// naiveBest queries each node, and returns at most `most` nodes that fit, best first.
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

// randomPod returns a pod of one or two containers. Some containers have a topology policy.
func randomPod(t *testing.T, rng *rand.Rand, uid string) *Pod {
	var all []Container
	for i := range 1 + rng.IntN(4)/3 {
		app := draw(rng, fmt.Sprint("c", i))
		app.Request.Policy = hybrid.Policy(rng.IntN(2))
		if rng.IntN(6) == 0 {
			app.Request.Topology = hybrid.TopologyPolicy(rng.IntN(5))
		}
		all = append(all, app)
	}
	return pod(t, uid, all...)
}

// fillRandomly places up to 11 random containers on a node. It ignores containers that do not fit.
func fillRandomly(t *testing.T, rng *rand.Rand, n *hybrid.Node) *hybrid.Node {
	for i := range rng.IntN(12) {
		app := draw(rng, "app")
		app.Request.ID = fmt.Sprintf("on-%d/app", i)
		if rng.IntN(10) == 0 {
			app.Request.Topology = hybrid.TopologyPolicy(rng.IntN(5))
		}
		_, _, _ = n.Place(&app.Request)
	}
	return n
}

// BenchmarkBest measures the search that preselects nodes for kube-scheduler, by the number of nodes. The
// requests of the pods are repeated or all different.
func BenchmarkBest(b *testing.B) {
	for _, machine := range []string{"core:16", "pack:2 numa:1 l3:2 core:8 pu:2"} {
		for _, nodes := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d nodes/repeated requests", machine, nodes), func(b *testing.B) { benchmarkBest(b, machine, nodes, 32) })
			b.Run(fmt.Sprintf("%s/%d nodes/different requests", machine, nodes), func(b *testing.B) { benchmarkBest(b, machine, nodes, 10*maxCaches) })
		}
	}
}

func benchmarkBest(b *testing.B, machine string, nodes, pods int) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(patience)
	free := Amounts{CPU: 16000, FreeCPU: 4000, Memory: 64 << 30, FreeMemory: 16 << 30}
	var refs []NodeRef
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		c.Report(name, 1, fill(b, rng, newNode(b, machine, hybrid.Options{MinShared: 500})), start)
		refs = append(refs, c.NodeRef(name, free))
	}
	var requested []*Pod
	for i := range pods {
		app := draw(rng, "app")
		app.Request.Limit += hybrid.Milli(i) // all requests differ
		requested = append(requested, pod(b, fmt.Sprint("pod-", i), app))
	}
	var search TopK
	var caches ResultCaches
	var best []int
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := requested[i%len(requested)]
		search.Start(p, caches.For(p, nodes))
		for at := range refs {
			search.Add(at, &refs[at])
		}
		best, _ = search.Best(64, best[:0])
	}
}
