package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A cell is a fleet like Google's cell of 2011: the machines of the cell, requests with the quantiles of its running tasks, and memory that
// is scarce on some nodes.
type cell struct {
	*fleet.Fleet
	random    *rand.Rand
	sensitive float64 // share
	running   []fleet.ContainerID
	free      []fleet.ContainerID
	request   fleet.Request
	memory    [1]int64
	policy    hybrid.Policy

	capacities []int64 // memory of the nodes
}

// cellMachines are the machine types and their shares. 1.0 CPU of the trace is 16 cores.
var cellMachines = []struct {
	cores  int
	memory int64
	share  float64
}{{8, 500, 0.537}, {8, 250, 0.31}, {8, 750, 0.08}, {16, 1000, 0.063}, {4, 250, 0.01}}

// cellLimits are limits in cores with the quantiles of the trace: p10 0.2, p50 0.8, p75 1, p90 2, p95 2.75, p99 5, max 8. A third are whole.
var cellLimits = []struct {
	limit hybrid.Milli
	share float64
}{
	{12, 0.02}, {60, 0.03}, {125, 0.04}, {200, 0.06}, {250, 0.06}, {313, 0.04}, {400, 0.09}, {500, 0.06}, {625, 0.05}, {688, 0.03},
	{800, 0.04}, {1000, 0.24}, {1100, 0.01}, {1250, 0.02}, {1376, 0.02}, {1500, 0.04}, {1750, 0.01}, {2000, 0.055}, {2500, 0.025},
	{2750, 0.02}, {3000, 0.01}, {4000, 0.01}, {5000, 0.01}, {6000, 0.005}, {8000, 0.005},
}

func newCell(t testing.TB, nodes int, o fleet.Options, sensitive float64) *cell {
	o.Resources = []string{"memory"}
	c := &cell{Fleet: newFleet(t, o), random: rand.New(rand.NewPCG(1, 2)), sensitive: sensitive}
	c.request.Resources = c.memory[:]
	machines := map[int]*topology.Machine{}
	for id := range nodes {
		kind := c.draw(len(cellMachines), func(i int) float64 { return cellMachines[i].share })
		m := &cellMachines[kind]
		if machines[m.cores] == nil {
			machines[m.cores] = machine(t, fmt.Sprint("core:", m.cores))
		}
		addNode(t, c.Fleet, fleet.NodeID(id), machines[m.cores], m.memory)
		c.capacities = append(c.capacities, m.memory)
	}
	return c
}

// draw draws an index at random, with the given shares.
func (c *cell) draw(count int, share func(int) float64) int {
	left := c.random.Float64()
	for i := range count {
		if left -= share(i); left < 0 {
			return i
		}
	}
	return 0
}

// next returns the next request.
func (c *cell) next() *fleet.Request {
	r := &c.request
	r.Limit = cellLimits[c.draw(len(cellLimits), func(i int) float64 { return cellLimits[i].share })].limit
	r.Class, r.Policy = hybrid.Flexible, c.policy
	if c.random.Float64() < c.sensitive {
		r.Class = hybrid.Sensitive
	}
	c.memory[0] = int64(float64(r.Limit) / 1000 * 45 * c.random.ExpFloat64())
	return r
}

// place places a container, and reports whether a node had room.
func (c *cell) place(r *fleet.Request) bool {
	id := fleet.ContainerID(len(c.running))
	if last := len(c.free) - 1; last >= 0 {
		id = c.free[last]
	}
	if _, err := c.Place(id, r); err != nil {
		return false
	}
	if last := len(c.free) - 1; last >= 0 {
		c.free = c.free[:last]
	}
	c.running = append(c.running, id)
	return true
}

// end releases a random container.
func (c *cell) end() {
	i := c.random.IntN(len(c.running))
	id := c.running[i]
	c.running[i] = c.running[len(c.running)-1]
	c.running = c.running[:len(c.running)-1]
	c.Release(id)
	c.free = append(c.free, id)
}

// fill places containers until this many consecutive requests were refused, and then replaces containers.
func (c *cell) fill(refusals, churn int) {
	for row := 0; row < refusals; {
		row++
		if c.place(c.next()) {
			row = 0
		}
	}
	for range churn {
		c.end()
		c.place(c.next())
	}
}

// BenchmarkDecision measures decisions in a full Google cell: each step releases a container and places another. It reports quantiles of
// the decision, and of the decision with the placement and the release.
func BenchmarkDecision(b *testing.B) {
	for _, o := range []fleet.Options{
		{Order: fleet.Candor}, {Order: fleet.Paper, Hybrid: hybrid.Options{Algorithm: hybrid.Paper}},
		{Order: fleet.Least}, {Order: fleet.Most},
		{Order: fleet.Least, Hybrid: hybrid.Options{Algorithm: hybrid.Paper}}, {Order: fleet.Most, Hybrid: hybrid.Options{Algorithm: hybrid.Paper}},
	} {
		for _, sensitive := range []float64{0, 0.5, 1} {
			b.Run(fmt.Sprintf("%v/%v/%v", o.Order, o.Hybrid.Algorithm, sensitive), func(b *testing.B) {
				benchmarkDecision(b, o, sensitive)
			})
		}
	}
}

func benchmarkDecision(b *testing.B, o fleet.Options, sensitive float64) {
	c := newCell(b, 12_500, o, sensitive)
	c.fill(20, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&after)
	decisions := make([]time.Duration, 0, b.N)
	refused := 0
	b.ResetTimer()
	runtime.ReadMemStats(&before)
	for range b.N {
		c.end()
		r := c.next()
		start := time.Now()
		_, err := c.Choose(r)
		decisions = append(decisions, time.Since(start))
		if err != nil || !c.place(r) {
			refused++
		}
	}
	b.StopTimer()
	totals := c.Totals()
	slices.Sort(decisions)
	var sum time.Duration
	for _, d := range decisions {
		sum += d
	}
	at := func(share float64) float64 {
		return float64(decisions[int(share*float64(len(decisions)-1))].Nanoseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	b.ReportMetric(float64(sum.Microseconds())/float64(len(decisions)), "mean-µs")
	b.ReportMetric(float64(refused)/float64(b.N)*100, "refused-%")
	b.ReportMetric(float64(totals.Sensitive+totals.Guaranteed)/float64(totals.Capacity)*100, "load-%")
	b.ReportMetric(float64(totals.Shared)/float64(max(totals.Sensitive, 1))*100, "shared-%")
	b.ReportMetric(float64(before.HeapAlloc)/(1<<20), "MiB")
}
