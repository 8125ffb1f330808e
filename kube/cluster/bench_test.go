package cluster

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// BenchmarkFitsAndRank measures the cost of Fits and Rank for a pod and a node.
func BenchmarkFitsAndRank(b *testing.B) {
	for _, machine := range []string{"core:16", "pack:2 numa:1 l3:2 core:8 pu:2"} {
		for _, containers := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/%d containers", machine, containers), func(b *testing.B) { benchmark(b, machine, containers) })
		}
	}
}

func benchmark(b *testing.B, machine string, containers int) {
	const nodes, pods = 100, 32
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(patience)
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprint("node-", i))
		c.Report(names[i], 1, fill(b, rng, newNode(b, machine, hybrid.Options{MinShared: 500})), start)
	}
	var requested []*Pod
	for i := range pods {
		var all []Container
		for j := range containers {
			all = append(all, draw(rng, fmt.Sprint("c", j)))
		}
		requested = append(requested, pod(b, fmt.Sprint("pod-", i), all...))
	}
	free := Amounts{CPU: 16000, FreeCPU: 4000, Memory: 64 << 30, FreeMemory: 16 << 30}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name, p := names[i%nodes], requested[i/nodes%pods]
		if c.Fits(name, p) == nil {
			c.Rank(name, p, free)
		}
	}
}

// BenchmarkMemory measures the memory of a node with 16 CPUs: without containers, and with 30 containers and
// their pods.
func BenchmarkMemory(b *testing.B) {
	const nodes, containers = 200, 30
	var empty, full float64
	for b.Loop() {
		before := inUse()
		c := New(patience)
		for i := range nodes {
			c.Report(fmt.Sprint("node-", i), 1, asReported(b, newNode(b, "core:16", hybrid.Options{MinShared: 500})), start)
		}
		empty = (inUse() - before) / nodes
		for i := range nodes {
			name := fmt.Sprint("node-", i)
			node := newNode(b, "core:16", hybrid.Options{MinShared: 500})
			for j := range containers {
				app := flexible("app", 200)
				if j%2 == 0 {
					app = sensitive("app", 250+10*hybrid.Milli(j%8))
				}
				p := pod(b, fmt.Sprintf("3f0c9a9e-7a55-4d4b-%04d-%012d", j, i), app)
				create(b, node, p)
				c.Bound(name, p, start)
			}
			c.Report(name, 2, asReported(b, node), start)
		}
		full = (inUse() - before) / nodes
		runtime.KeepAlive(c)
	}
	b.ReportMetric(empty, "B/empty-node")
	b.ReportMetric(full, "B/node")
}

// inUse returns the size of the live heap in bytes.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // free the memory of the first measurement before the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// asReported converts a node to a report and back, as the scheduler does. The result has a separate machine.
func asReported(b *testing.B, n *hybrid.Node) *hybrid.Node {
	status := nodecpu.Status(n, nodecpu.HolderOf)
	status.Counter = 1
	node, err := nodecpu.Node(&status)
	if err != nil {
		b.Fatal(err)
	}
	return node
}

// draw returns a random container of either class, with 0.1 to 2.5 CPUs.
func draw(rng *rand.Rand, name string) Container {
	limit := hybrid.Milli(100 + 100*rng.IntN(25))
	if rng.IntN(2) == 0 {
		return flexible(name, limit)
	}
	return sensitive(name, limit)
}

// fill places containers on a node until they have four fifths of its capacity.
func fill(b *testing.B, rng *rand.Rand, n *hybrid.Node) *hybrid.Node {
	for i := 0; n.Sensitive()+n.Guaranteed() < n.Capacity()*4/5; i++ {
		c := draw(rng, "app")
		c.Request.ID = fmt.Sprintf("on-%d/app", i)
		if _, _, err := n.Place(&c.Request); err != nil && i > 1000 {
			b.Fatal(err)
		}
	}
	return n
}
