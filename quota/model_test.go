package quota

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
)

// TestGreedyMean: a group that uses all available CPU time stays within 2 % of its limit over a minute, both
// from its start and after an idle time with maximal savings.
func TestGreedyMean(t *testing.T) {
	for _, rest := range []time.Duration{0, 5 * time.Second} {
		for _, kernel := range []time.Duration{0, 50 * ms} {
			for _, late := range []time.Duration{0, 2 * ms, 30 * ms} {
				l := newLab(4, 400*ms, half(kernel, 37*ms))
				random := rand.New(rand.NewPCG(1, 2))
				l.delay = func() time.Duration { return time.Duration(random.Int64N(int64(late) + 1)) }
				l.SetThreads(0, 4)
				l.Add(0, time.Second)
				l.run(3 * time.Second) // the loop has found the edge
				l.run(3*time.Second + rest)
				before, from := l.Stat(0).Usage, l.Now()
				l.Add(0, time.Hour)
				l.run(from + time.Minute)
				mean := (l.Stat(0).Usage - before).Minutes()
				if mean < 0.49 || mean > 0.51 {
					t.Errorf("after a rest of %v, kernel burst %v, up to %v late: %.4f CPUs on average, limit 0.5; %d writes", rest, kernel, late, mean, len(l.writes))
				}
				t.Logf("rest %v, kernel burst %v, up to %v late: %.4f CPUs, %d writes", rest, kernel, late, mean, len(l.writes))
			}
		}
	}
}

// TestBurstyDemand: four threads need 60 ms each at random moments, 30 % of the limit on average. The test compares
// their throttling with and without the loop.
func TestBurstyDemand(t *testing.T) {
	demand := func(l *lab) (throttled uint64, took time.Duration) {
		random := rand.New(rand.NewPCG(3, 4))
		l.SetThreads(0, 4)
		for at := time.Second; at < 10*time.Minute; at += time.Duration((0.5 + random.Float64()) * float64(1600*ms)) {
			l.run(at)
			l.Add(0, 240*ms)
			for l.Busy(0) && l.Now() < at+1400*ms {
				l.run(l.Now() + ms)
			}
			took += l.Now() - at
		}
		return l.Stat(0).Throttled, took
	}
	for _, kernel := range []time.Duration{0, 50 * ms} {
		off := newLab(4, 400*ms, half(kernel, 37*ms))
		off.room = func(time.Duration) time.Duration { return 0 }
		without, slow := demand(off)
		on := newLab(4, 400*ms, half(kernel, 37*ms))
		with, fast := demand(on)
		t.Logf("kernel burst %v: throttled in %d periods, %v in all; with the loop %d, %v, %d writes; used %v and %v", kernel, without, slow, with, fast, len(on.writes), off.Stat(0).Usage, on.Stat(0).Usage)
		if 2*with > without || 3*fast > 2*slow {
			t.Errorf("kernel burst %v: throttled in %d periods for %v, with the loop in %d for %v", kernel, without, slow, with, fast)
		}
		if len(off.writes) > 0 {
			t.Errorf("without room: %v", off.writes)
		}
	}
}

// TestRaisedQuotaReturns: a raised quota returns to its limit when the group is idle, when its savings are
// spent, and when other groups need the CPUs.
func TestRaisedQuotaReturns(t *testing.T) {
	const begin = 6 * time.Second
	saved := func() *lab { // the edge is found, and the savings are maximal
		l := newLab(4, 400*ms, half(0, 61*ms))
		l.SetThreads(0, 4)
		l.Add(0, 500*ms)
		l.run(begin)
		return l
	}
	l := saved()
	l.Add(0, 300*ms)
	l.run(begin + 250*ms)
	if l.state.Extra() == 0 {
		t.Error("the quota of a throttled group is not raised")
	}
	for from := l.Now(); l.state.Extra() > 0; l.run(l.Now() + 10*ms) {
		if l.Now() > from+5*time.Second {
			t.Fatal("the quota of an idle group is still raised")
		}
	}

	l = saved()
	l.Add(0, time.Hour)
	l.run(begin + 3*time.Second)
	if l.state.Extra() > 0 || l.state.Saved > 25*ms {
		t.Errorf("greedy: raised by %v, saved %v", l.state.Extra(), l.state.Saved)
	}

	l = saved()
	l.room = func(at time.Duration) time.Duration {
		if at > begin+250*ms {
			return 20 * ms
		}
		return 80 * ms
	}
	l.Add(0, time.Hour)
	l.run(begin + 400*ms)
	if l.state.Extra() != 20*ms {
		t.Errorf("room for 20ms: raised by %v", l.state.Extra())
	}
}

// TestWriteRefillsQuota: a write in the model refills the quota, as in the kernel. To write the same value in
// the middle of each period doubles the CPU time.
func TestWriteRefillsQuota(t *testing.T) {
	for _, at := range []struct {
		after    time.Duration
		low, top float64
	}{{50 * ms, 0.95, 1}, {500 * time.Microsecond, 0.5, 0.53}} {
		s := half(0, 0)
		sim := bandwidth.New(bandwidth.Linux, 1, s)
		sim.Add(0, time.Hour)
		for edge := time.Duration(0); edge < 10*time.Second; edge += s.Period {
			sim.Run(edge + at.after)
			sim.Set(0, s.Bandwidth)
		}
		if mean := sim.Stat(0).Usage.Seconds() / 10; mean < at.low || mean > at.top {
			t.Errorf("written %v after each edge: %.3f CPUs, want %v to %v", at.after, mean, at.low, at.top)
		}
	}
}

// TestRecreatedGroup: a group that was removed and created again has no savings.
func TestRecreatedGroup(t *testing.T) {
	s := State{Setting: Setting{Setting: burst.Setting{Quota: 50 * ms, Period: 100 * ms, MaxQuota: 150 * ms}}}
	for at := time.Duration(0); at < 2*time.Second; at += 100 * ms {
		s, _ = s.Next(Sample{At: at, Used: 10 * ms})
	}
	if s.Saved != 400*ms {
		t.Errorf("saved %v, want 400ms", s.Saved)
	}
	if s, _ = s.Next(Sample{At: 2 * time.Second, Used: 5 * ms}); s.Saved != 0 {
		t.Errorf("the recreated group has saved %v", s.Saved)
	}
}

// TestAlwaysLate: a loop that wakes too late to find the exact edge still raises the quota after a while, and
// the mean stays at the limit.
func TestAlwaysLate(t *testing.T) {
	l := newLab(4, 150*ms, half(0, 37*ms))
	random := rand.New(rand.NewPCG(5, 6))
	l.delay = func() time.Duration { return 15*ms + time.Duration(random.Int64N(int64(40*ms))) }
	l.SetThreads(0, 4)
	raised := false
	for minute := range 10 {
		before := l.Stat(0).Usage
		for range 30 {
			l.Add(0, time.Second)
			l.run(l.Now() + time.Second)
			raised = raised || l.state.Extra() > 0
			l.Drop(0)
			l.run(l.Now() + time.Second)
		}
		if mean := (l.Stat(0).Usage - before).Minutes(); mean > 0.51 {
			t.Errorf("minute %d: %.4f CPUs, limit 0.5", minute, mean)
		}
	}
	if l.state.edge.width <= edgePrecision || !raised {
		t.Errorf("edge known to %v, raised: %v", l.state.edge.width, raised)
	}
}
