package burst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// latencies holds the results of a simulation: three limited containers beside a neighbor without a limit.
type latencies struct {
	throttled float64       // share of the periods
	limited   time.Duration // 99th percentile of the latency of a job of the first limited container
	neighbor  time.Duration // 99th percentile of the latency of a job of the neighbor
}

// work holds the jobs of a container. Their CPU times, and the times between them, are exponentially
// distributed.
type work struct {
	group      int
	mean, each time.Duration // mean CPU time of a job, and mean time between two jobs
	random     *rand.Rand
	next       time.Duration
	started    []time.Duration
	took       []time.Duration
}

// simulate runs four containers with four threads each on four CPUs for ten minutes. Three have a limit of 1
// CPU and use this share of it; the neighbor needs a sixth of a CPU and has no limit.
func simulate(use float64, burst time.Duration) (h latencies) {
	limit := bandwidth.Bandwidth{Quota: 100 * time.Millisecond, Period: 100 * time.Millisecond}
	var settings []bandwidth.Setting
	var all []*work
	for i := range 4 {
		setting := bandwidth.Setting{Bandwidth: limit, Phase: time.Duration(i) * 27 * time.Millisecond}
		w := &work{group: i, mean: 80 * time.Millisecond, random: rand.New(rand.NewPCG(1, uint64(i)))}
		w.each = time.Duration(float64(w.mean) / use)
		if setting.Burst = burst; i == 3 {
			setting.Bandwidth, w.mean, w.each = bandwidth.Bandwidth{}, 40*time.Millisecond, 250*time.Millisecond
		}
		settings, all = append(settings, setting), append(all, w)
	}
	s := bandwidth.New(bandwidth.Linux, 4, settings...)
	for i, w := range all {
		s.SetThreads(i, 4)
		s.Follow(i, func(at time.Duration) {
			w.took = append(w.took, at-w.started[0])
			w.started = w.started[1:]
		})
	}
	for s.Now() < 10*time.Minute {
		w := slices.MinFunc(all, func(a, b *work) int { return int(a.next - b.next) })
		s.Run(w.next)
		w.started = append(w.started, s.Now())
		s.Add(w.group, max(time.Duration(w.random.ExpFloat64()*float64(w.mean)), time.Microsecond))
		w.next += max(time.Duration(w.random.ExpFloat64()*float64(w.each)), time.Microsecond)
	}
	s.RunWhileBusy(0, s.Now()+time.Minute)
	p99 := func(w *work) time.Duration {
		slices.Sort(w.took)
		return w.took[len(w.took)*99/100]
	}
	stat := s.Stat(0)
	return latencies{float64(stat.Throttled) / float64(stat.Periods), p99(all[0]), p99(all[3])}
}

// TestWhereBurstsHelp: a container that uses more of its limit saves less, and its bursts compete more often
// with those of other containers. docs/benchmarks/burst.md has the table.
func TestWhereBurstsHelp(t *testing.T) {
	table := &strings.Builder{}
	gain, cost := map[float64]float64{}, map[float64]float64{} // by use: relative change of both latencies
	for _, use := range []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		none, some := simulate(use, 0), simulate(use, 100*time.Millisecond)
		gain[use], cost[use] = 1-some.limited.Seconds()/none.limited.Seconds(), some.neighbor.Seconds()/none.neighbor.Seconds()-1
		if some.throttled >= none.throttled {
			t.Errorf("%.1f of the limit: throttled in %v of the periods with a burst, %v without", use, some.throttled, none.throttled)
		}
		ms := func(d time.Duration) int64 { return d.Milliseconds() }
		fmt.Fprintf(table, "| %.0f %% | %.0f %% | %.0f %% | %d ms | %d ms | %d ms | %d ms |\n", 100*use, 100*none.throttled, 100*some.throttled,
			ms(none.limited), ms(some.limited), ms(none.neighbor), ms(some.neighbor))
	}
	t.Logf("\n%s", table)
	if gain[0.2] < 0.2 || gain[0.5] > 0.2 || gain[0.8] > 0.1 {
		t.Errorf("gain by use: %v", gain)
	}
	if max(cost[0.2], cost[0.3], cost[0.4], cost[0.5], cost[0.6]) > 0.05 || min(cost[0.7], cost[0.8]) < 0.05 {
		t.Errorf("cost for the neighbor by use: %v", cost)
	}
}
