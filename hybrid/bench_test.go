package hybrid_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

var twoSockets = shape{2, 1, 1, 32, 2}

// nodeOn returns a node on a machine. Containers of 4 CPUs have half of the machine.
func nodeOn(t testing.TB, m *topology.Machine) *hybrid.Node {
	t.Helper()
	node, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Online.Count() / 8 {
		mustAllocate(t, node, hybrid.Request{ID: fmt.Sprint("c", i), Limit: 4000})
	}
	return node
}

// fragmentedNode returns a node on which a container has one thread of each core.
func fragmentedNode(t testing.TB) *hybrid.Node {
	t.Helper()
	m := twoSockets.machine()
	node, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var grants []hybrid.Grant
	for i := 0; i < len(m.Cores); i += 4 {
		cpus := cpuset.Range(i, i+3)
		grants = append(grants, hybrid.Grant{Request: hybrid.Request{ID: fmt.Sprint("c", i), Limit: 4000}, CPUs: cpus, Exclusive: cpus, Weight: 4000})
	}
	if err := node.Restore(grants); err != nil {
		t.Fatal(err)
	}
	return node
}

// busyNode returns a node of 16 CPUs near full load. Every CPU that is not exclusive has a fraction.
func busyNode(t testing.TB) *hybrid.Node {
	t.Helper()
	node := newNode(t, 16, hybrid.Options{})
	random := rand.New(rand.NewPCG(7, 7))
	used := hybrid.Milli(0)
	for i := 0; used < 15_400; i++ {
		r := hybrid.Request{ID: fmt.Sprint("c", i), Class: hybrid.Class(i % 2)}
		r.Limit = min(traceLimit(random, r.Class), 15_400-used)
		if plan, err := node.Plan(r); err == nil {
			commit(t, node, plan)
			used += r.Limit
		}
	}
	return node
}

// roundTrip places a container and releases it: two plans and two commits.
func roundTrip(t testing.TB, node *hybrid.Node, r hybrid.Request) {
	plan, err := node.Plan(r)
	if err == nil {
		err = node.Commit(plan)
	}
	if err == nil {
		plan, err = node.PlanRelease(r.ID)
	}
	if err == nil {
		err = node.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var roundTrips = []struct {
	name  string
	node  func(t testing.TB) *hybrid.Node
	limit hybrid.Milli
	free  bool // of allocations
}{
	{"4", func(t testing.TB) *hybrid.Node { return nodeOn(t, twoSockets.machine()) }, 4000, true},
	{"3500m", func(t testing.TB) *hybrid.Node { return nodeOn(t, twoSockets.machine()) }, 3500, true},
	{"fragmented/4", fragmentedNode, 4000, true},
	{"8 NUMA nodes/4", func(t testing.TB) *hybrid.Node { return nodeOn(t, shape{2, 4, 2, 4, 2}.machine()) }, 4000, true},
	{"512 CPUs/4", func(t testing.TB) *hybrid.Node { return nodeOn(t, shape{2, 4, 4, 8, 2}.machine()) }, 4000, true},
	{"hybrid P and E/4", func(t testing.TB) *hybrid.Node { return nodeOn(t, hybridMachine(8, 2, 24)) }, 4000, true}, // the P cores are taken
	{"hybrid mixture/3500m", func(t testing.TB) *hybrid.Node { return nodeWithExclusive(t, hybridMachine(4, 1, 4), "0-1", "4-5") }, 3500, true},
	{"busy/300m", busyNode, 300, false},
	{"lending/300m", nodeWithLentCPUs, 300, false},
}

// nodeWithLentCPUs returns a node of 512 fractional CPUs, a few of which have room for the flexible containers. So each operation searches
// for better CPUs among hundreds of fractions.
func nodeWithLentCPUs(t testing.TB) *hybrid.Node {
	node, err := hybrid.NewNode(shape{2, 4, 4, 8, 2}.machine(), hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 480 {
		mustAllocate(t, node, hybrid.Request{ID: fmt.Sprint("c", i), Limit: hybrid.Milli(200 + random.IntN(700))})
	}
	for i := range 200 {
		mustAllocate(t, node, hybrid.Request{ID: fmt.Sprint("f", i), Class: hybrid.Flexible, Limit: 800})
	}
	return node
}

// BenchmarkRoundTrip measures the plan, commit and release of a sensitive container. Unless the name of the case differs, the machine has 2
// sockets x 32 cores x 2 threads, and containers of 4 CPUs have half of it.
func BenchmarkRoundTrip(b *testing.B) { benchmark(b, roundTrip) }

// BenchmarkDirect measures the same with Place and Remove, including their costs.
func BenchmarkDirect(b *testing.B) {
	benchmark(b, func(t testing.TB, node *hybrid.Node, r hybrid.Request) {
		handle, _, err := node.Place(&r)
		if err != nil {
			t.Fatal(err)
		}
		node.Remove(handle)
	})
}

func benchmark(b *testing.B, once func(testing.TB, *hybrid.Node, hybrid.Request)) {
	for _, bench := range roundTrips {
		b.Run(bench.name, func(b *testing.B) {
			node := bench.node(b)
			r := hybrid.Request{ID: "new", Limit: bench.limit}
			b.ReportAllocs()
			for b.Loop() {
				once(b, node, r)
			}
		})
	}
}

// BenchmarkManyNodes measures the release of a container and the placement of another, in turn on each of the 12,500 nodes of a full cell.
// Between two turns, a node leaves the CPU caches. The benchmark also reports the memory of a node.
func BenchmarkManyNodes(b *testing.B) {
	const count = 12_500
	nodes, handles := make([]*hybrid.Node, count), make([][]hybrid.Handle, count)
	empty, random := newNode(b, 16, hybrid.Options{}), rand.New(rand.NewPCG(3, 3))
	place := func(i int) bool {
		r := hybrid.Request{Class: hybrid.Class(random.IntN(2))}
		r.Limit = traceLimit(random, r.Class)
		h, _, err := nodes[i].Place(&r)
		if err == nil {
			handles[i] = append(handles[i], h)
		}
		return err == nil
	}
	var before, after runtime.MemStats
	for i := range handles {
		handles[i] = make([]hybrid.Handle, 0, 64)
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	containers := 0
	for i := range nodes {
		nodes[i] = empty.NewLike()
		for place(i) {
			containers++
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		i := random.IntN(count)
		if at := random.IntN(len(handles[i])); !place(i) || len(handles[i]) == cap(handles[i]) {
			nodes[i].Remove(handles[i][at])
			handles[i] = slices.Delete(handles[i], at, at+1)
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/node")
	b.ReportMetric(float64(after.HeapObjects-before.HeapObjects)/count, "objects/node")
	b.ReportMetric(float64(containers)/count, "containers/node")
}

// BenchmarkFlexible measures the same with a flexible container.
func BenchmarkFlexible(b *testing.B) {
	node := nodeOn(b, twoSockets.machine())
	r := hybrid.Request{ID: "new", Limit: 1500, Class: hybrid.Flexible}
	b.ReportAllocs()
	for b.Loop() {
		roundTrip(b, node, r)
	}
}

// BenchmarkRefusal plans a request that is refused because whole CPUs are missing.
func BenchmarkRefusal(b *testing.B) {
	node := busyNode(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := node.Plan(hybrid.Request{ID: "new", Limit: 15_000}); err == nil {
			b.Fatal("not refused")
		}
	}
}

// A plan and its commit allocate no memory in the cases that are marked as free.
func TestNoAllocations(t *testing.T) {
	for _, test := range roundTrips {
		t.Run(test.name, func(t *testing.T) {
			node := test.node(t)
			r := hybrid.Request{ID: "new", Limit: test.limit}
			n := testing.AllocsPerRun(100, func() { roundTrip(t, node, r) })
			t.Logf("%.0f allocations", n)
			if test.free && n > 0 {
				t.Errorf("%.0f allocations a round trip, want none", n)
			}
		})
	}
}
