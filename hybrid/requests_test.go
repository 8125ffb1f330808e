package hybrid_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// awkwardLimits are limits at the edges: fractions that sum up to exactly 1000m or slightly less, and the smallest limit.
var awkwardLimits = []hybrid.Milli{10, 11, 20, 100, 125, 200, 250, 333, 334, 400, 500, 501, 600, 667, 750,
	990, 999, 1001, 1010, 1250, 1333, 1500, 1999, 2001, 2500, 2999, 3500, 4001}

// drawLimit draws a limit for a node with this number of CPUs.
func drawLimit(t *rapid.T, cpus int) hybrid.Milli {
	milli := func(low, high int) hybrid.Milli {
		return hybrid.Milli(rapid.IntRange(low, max(low, high)).Draw(t, "limit"))
	}
	switch rapid.IntRange(0, 9).Draw(t, "size") {
	case 0, 1:
		return rapid.SampledFrom(awkwardLimits).Draw(t, "limit")
	case 2:
		return 1000 * milli(1, min(4, cpus))
	case 3:
		return milli(10, 60)
	case 4:
		return milli(10, 1000*cpus)
	case 5:
		return 1000 * milli(1, cpus)
	case 6, 7:
		return 10 * milli(1, 400)
	default:
		return milli(10, 4000)
	}
}

// drawRequest draws a valid request.
func drawRequest(t *rapid.T, id string, cpus int) hybrid.Request {
	r := hybrid.Request{ID: id, Limit: drawLimit(t, cpus)}
	if rapid.IntRange(0, 4).Draw(t, "best effort") == 4 {
		r.Policy = hybrid.BestEffort
	}
	if rapid.Bool().Draw(t, "has a topology policy") {
		r.Topology = hybrid.TopologyPolicy(rapid.IntRange(0, int(hybrid.NoTopology)).Draw(t, "topology policy"))
	}
	r.Immovable = rapid.IntRange(0, 9).Draw(t, "immovable") == 9
	if rapid.Bool().Draw(t, "flexible") {
		r.Class = hybrid.Flexible
		switch rapid.IntRange(0, 5).Draw(t, "guarantee") {
		case 0:
			r.Limit = 0
		case 1:
			r.Guarantee = hybrid.NoGuarantee
		case 2:
			r.Guarantee = max(1, r.Limit/3)
		case 3:
			r.Guarantee, r.Limit = r.Limit, 0
		}
	}
	return r
}

// drawOptions draws options with which the node has at least one CPU.
func drawOptions(t *rapid.T, m *topology.Machine, algorithm hybrid.Algorithm) hybrid.Options {
	o := hybrid.Options{Algorithm: algorithm}
	o.UseIsolated = rapid.IntRange(0, 3).Draw(t, "use isolated") == 0
	if rapid.IntRange(0, 3).Draw(t, "confined") == 0 {
		o.Usable = m.Online.Minus(drawSubset(t, "not usable", m.Online.Minus(m.Online.Lowest(1)), 8))
	}
	if rapid.IntRange(0, 2).Draw(t, "reserving") == 0 {
		o.Reserved = drawSubset(t, "reserved", usable(m, o), 2)
		if left := usable(m, o); left.IsEmpty() {
			o.Reserved = cpuset.Set{}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "min-shared") == 0 {
		cpus := usable(m, o)
		all := hybrid.Milli(1000 * cpus.Count())
		o.MinShared = min(all, rapid.SampledFrom([]hybrid.Milli{1, 250, 500, 1000, all / 2, all - 100, all}).Draw(t, "min-shared"))
	}
	moves := []int{0, 0, hybrid.NoMoves, 1, 2, 4, hybrid.AnyMoves}
	o.Moves = rapid.SampledFrom(moves).Draw(t, "moves")
	o.RescueMoves = rapid.SampledFrom(moves).Draw(t, "rescue moves")
	return o
}

// usable returns the CPUs that a node with these options can give to containers.
func usable(m *topology.Machine, o hybrid.Options) cpuset.Set {
	cpus := m.Online.Minus(o.Reserved)
	if !o.Usable.IsEmpty() {
		cpus = cpus.Intersect(o.Usable)
	}
	if !o.UseIsolated {
		cpus = cpus.Minus(m.Isolated)
	}
	return cpus
}

// guaranteed returns the CPU time of a request that counts toward the capacity.
func guaranteed(r hybrid.Request) hybrid.Milli {
	switch {
	case r.Class == hybrid.Flexible && r.Guarantee == hybrid.NoGuarantee:
		return 0
	case r.Class == hybrid.Flexible && r.Guarantee > 0:
		return r.Guarantee
	}
	return r.Limit
}

// The most frequent CPU requests of the tasks of 0.1 to 4 CPUs that run at the start of Google's trace of 2011, in
// milli-CPU (1.0 CPU of the trace is 16 cores). The second number is how many of a thousand tasks have this request. The
// tables are for latency-sensitive tasks (scheduling classes 2 and 3, half of all tasks) and for the other tasks.
var (
	traceSensitive = [][2]int{{1000, 288}, {300, 132}, {2000, 70}, {490, 70}, {1500, 52}, {500, 30}, {3000, 29},
		{1359, 24}, {650, 22}, {600, 21}, {990, 21}, {2422, 20}, {100, 20}, {4000, 14}, {1350, 13}, {1051, 13}, {2051, 9},
		{1661, 9}, {1770, 8}, {3011, 8}, {200, 7}, {1800, 6}, {150, 6}, {2269, 6}}
	traceFlexible = [][2]int{{200, 392}, {1000, 221}, {500, 83}, {100, 60}, {1100, 58}, {400, 51}, {2000, 29}, {300, 22},
		{900, 21}, {1250, 16}, {3000, 7}, {150, 6}, {817, 4}, {1500, 4}, {406, 4}}
)

// traceLimit draws a limit of 0.1 to 4 CPUs with the distribution of the trace: one of the frequent limits or, for a tenth of the sensitive
// tasks, any limit in steps of 1m.
func traceLimit(random *rand.Rand, class hybrid.Class) hybrid.Milli {
	frequent := traceSensitive
	if class == hybrid.Flexible {
		frequent = traceFlexible
	}
	p := random.IntN(1000)
	for _, f := range frequent {
		if p -= f[1]; p < 0 {
			return hybrid.Milli(f[0])
		}
	}
	return uniformLimit(random, class)
}

// uniformLimit draws a limit of 0.1 to 4 CPUs, uniformly in steps of 1m.
func uniformLimit(random *rand.Rand, _ hybrid.Class) hybrid.Milli {
	return hybrid.Milli(100 + random.IntN(3901))
}

// A sampler is a distribution of limits.
type sampler struct {
	name  string
	limit func(random *rand.Rand, class hybrid.Class) hybrid.Milli
}

var samplers = []sampler{{"trace", traceLimit}, {"uniform", uniformLimit}}

// The limits of the sampler have the quantiles of the trace.
func TestTraceLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	limits := make([]hybrid.Milli, 100_000)
	whole := 0
	for i := range limits {
		limits[i] = traceLimit(random, hybrid.Class(i%2))
		if limits[i]%1000 == 0 {
			whole++
		}
	}
	slices.Sort(limits)
	for p, want := range map[int][2]hybrid.Milli{0: {100, 100}, 10: {200, 200}, 50: {500, 1000}, 75: {1000, 1100}, 90: {1500, 2000}, 95: {2000, 2750}, 100: {4000, 4000}} {
		got := limits[min(len(limits)-1, len(limits)*p/100)]
		if got < want[0] || got > want[1] {
			t.Errorf("p%d is %dm, want %d to %dm", p, got, want[0], want[1])
		}
	}
	if share := whole * 100 / len(limits); share < 28 || share > 36 {
		t.Errorf("%d %% of the limits are whole, want about 32 %%", share)
	}
}

func TestQuota(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		amount       hybrid.Milli
		period, want time.Duration
	}{
		{0, 100 * ms, 0},
		{10, 100 * ms, ms},
		{1500, 100 * ms, 150 * ms},
		{-500, 100 * ms, -50 * ms}, // a difference of limits
		{333, 10 * time.Microsecond, 3330},
		{1, 999, 0}, // rounds toward zero
		{hybrid.MaxLimit, time.Second, 1024 * time.Second},
	} {
		if got := test.amount.Quota(test.period); got != test.want {
			t.Errorf("%v in %v: %v, want %v", test.amount, test.period, got, test.want)
		}
	}
}
