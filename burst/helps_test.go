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

// A helped holds the measurements of containers that use a share of their limits, beside other containers.
type helped struct {
	throttled float64       // share of the periods
	late      time.Duration // 99th percentile of the latency of a piece of work
	beside    time.Duration // the same of the neighbor's
}

// work are pieces of CPU time that come at random: exponentially distributed, as are the times between them.
type work struct {
	group      int
	mean, each time.Duration // of a piece, and from one to the next
	random     *rand.Rand
	next       time.Duration
	begun      []time.Duration
	took       []time.Duration
}

// help has three containers with a limit of one CPU, four threads and that use of it, and a neighbor that needs a sixth of a CPU
// and is never throttled, on four CPUs for ten minutes.
func help(use float64, burst time.Duration) (h helped) {
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
			w.took = append(w.took, at-w.begun[0])
			w.begun = w.begun[1:]
		})
	}
	for s.Now() < 10*time.Minute {
		w := slices.MinFunc(all, func(a, b *work) int { return int(a.next - b.next) })
		s.Run(w.next)
		w.begun = append(w.begun, s.Now())
		s.Add(w.group, max(time.Duration(w.random.ExpFloat64()*float64(w.mean)), time.Microsecond))
		w.next += max(time.Duration(w.random.ExpFloat64()*float64(w.each)), time.Microsecond)
	}
	s.RunWhileBusy(0, s.Now()+time.Minute)
	p99 := func(w *work) time.Duration {
		slices.Sort(w.took)
		return w.took[len(w.took)*99/100]
	}
	stat := s.Stat(0)
	return helped{float64(stat.Throttled) / float64(stat.Periods), p99(all[0]), p99(all[3])}
}

// TestWhereBurstsHelp: the more of its limit a container uses, the less it can save, and the more often its bursts
// meet those of other containers. docs/benchmarks/burst.md has the table.
func TestWhereBurstsHelp(t *testing.T) {
	table := &strings.Builder{}
	gain, cost := map[float64]float64{}, map[float64]float64{} // by use: how much sooner work is done, how much later the neighbor's
	for _, use := range []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		none, some := help(use, 0), help(use, 100*time.Millisecond)
		gain[use], cost[use] = 1-some.late.Seconds()/none.late.Seconds(), some.beside.Seconds()/none.beside.Seconds()-1
		if some.throttled >= none.throttled {
			t.Errorf("%.1f of the limit: throttled in %v of the periods with a burst, %v without", use, some.throttled, none.throttled)
		}
		ms := func(d time.Duration) int64 { return d.Milliseconds() }
		fmt.Fprintf(table, "| %.0f %% | %.0f %% | %.0f %% | %d ms | %d ms | %d ms | %d ms |\n", 100*use, 100*none.throttled, 100*some.throttled,
			ms(none.late), ms(some.late), ms(none.beside), ms(some.beside))
	}
	t.Logf("\n%s", table)
	if gain[0.2] < 0.2 || gain[0.5] > 0.2 || gain[0.8] > 0.1 {
		t.Errorf("what it gains: %v", gain)
	}
	if max(cost[0.2], cost[0.3], cost[0.4], cost[0.5], cost[0.6]) > 0.05 || min(cost[0.7], cost[0.8]) < 0.05 {
		t.Errorf("what the neighbor pays: %v", cost)
	}
}
