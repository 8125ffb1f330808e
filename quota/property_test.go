package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/bandwidth"
)

func span(low, high time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(int64(low), int64(high)), func(n int64) time.Duration { return time.Duration(n) })
}

// drawLab draws a lab with a random limit, whose loop wakes at most latest too late.
func drawLab(t *rapid.T, latest time.Duration) *lab {
	period := rapid.OneOf(rapid.Just(100*ms), span(bandwidth.MinRaisePeriod, time.Second)).Draw(t, "period")
	quota := rapid.OneOf(rapid.Just(period/2), span(ms, 2*period)).Draw(t, "quota")
	s := bandwidth.Setting{Phase: span(0, time.Second).Draw(t, "phase")}
	s.Bandwidth = bandwidth.Bandwidth{Quota: quota, Period: period, Burst: rapid.OneOf(rapid.Just(quota), rapid.Just(0*ms)).Draw(t, "burst")}
	l := newLab(rapid.IntRange(1, 8).Draw(t, "CPUs"), quota*time.Duration(rapid.IntRange(1, 4).Draw(t, "most")), s)
	l.delay = func() time.Duration { return span(0, latest).Draw(t, "delay") }
	room := rapid.SampledFrom([]time.Duration{0, quota / 5, quota, 8 * quota}).Draw(t, "room")
	l.room = func(time.Duration) time.Duration { return room }
	return l
}

// play gives the group random demand in steps, and calls check after each step.
func (l *lab) play(t *rapid.T, check func()) {
	for range rapid.IntRange(1, 12).Draw(t, "acts") {
		l.SetThreads(0, rapid.IntRange(1, 10).Draw(t, "threads"))
		l.Add(0, rapid.OneOf(span(0, 20*ms), span(0, 2*time.Second)).Draw(t, "work"))
		l.run(l.Now() + rapid.OneOf(span(1, 300*ms), span(1, 3*time.Second)).Draw(t, "span"))
		check()
	}
}

// TestBound: from any moment on, a group uses at most its limit, its maximal savings, and the time that it can use
// until the next tick of the loop.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latest := rapid.SampledFrom([]time.Duration{0, ms, 20 * ms}).Draw(t, "latest")
		l := drawLab(t, latest)
		s := l.state.Setting
		limit := float64(s.Quota) / float64(s.Period)
		cpus := time.Duration(8)
		slop := l.has.Burst + 2*s.MaxQuota + cpus*(9*ms+4*latest)
		type sample struct{ at, used time.Duration }
		samples := []sample{{}}
		l.play(t, func() {
			now := sample{l.Now(), l.Stat(0).Usage}
			for _, then := range samples {
				most := time.Duration(limit*float64(now.at-then.at+time.Second)) + slop
				if now.used-then.used > most {
					t.Fatalf("used %v in %v, at most %v; writes %v", now.used-then.used, now.at-then.at, most, l.writes)
				}
			}
			samples = append(samples, now)
		})
	})
}

// TestWrites: each write changes the quota, and the quota stays between the limit and the maximum. Savings
// cover each raise. When the group is idle at the end, the quota equals the limit.
func TestWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLab(t, 2*ms)
		s := l.state.Setting
		l.play(t, func() {})
		l.Drop(0)
		l.run(l.Now() + 30*s.Period)
		has := s.Quota
		for _, w := range l.writes {
			extra := w.quota - s.Quota
			switch {
			case w.quota == has:
				t.Fatalf("written again: %v", l.writes)
			case extra < 0 || w.quota > s.MaxQuota:
				t.Fatalf("quota %v, most %v: %v", s.Quota, s.MaxQuota, l.writes)
			case w.quota > has && (extra > w.saved || extra > l.room(w.at)):
				t.Fatalf("raised by %v with %v saved and room for %v", extra, w.saved, l.room(w.at))
			}
			has = w.quota
		}
		if has != s.Quota {
			t.Fatalf("at rest the quota is %v, not %v: %v", has, s.Quota, l.writes)
		}
	})
}

// TestEdgeIsFound: the loop finds the edge of a busy group within 25 periods, and at the right phase.
func TestEdgeIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLab(t, 50*time.Microsecond)
		s := l.state.Setting
		l.state.MaxQuota += s.Quota // the loop finds the edge of a group whose quota it can raise
		l.room = func(time.Duration) time.Duration { return 0 }
		l.SetThreads(0, 8)
		l.Add(0, time.Hour)
		l.run(25 * s.Period)
		e := l.state.edge
		if e.width > edgePrecision {
			t.Fatalf("after 25 periods of %v: known to %v", s.Period, e.width)
		}
		before := l.Stat(0).Periods
		edge := e.next(l.Now()+s.Period, e.low)
		l.Run(edge)
		if got := l.Stat(0).Periods - before; got != 1 && got != 2 {
			t.Fatalf("%d edges in one to two periods", got)
		}
		before = l.Stat(0).Periods
		l.Run(edge + e.width)
		if l.Stat(0).Periods != before+1 {
			t.Fatalf("no edge between %v and %v", edge, edge+e.width)
		}
	})
}

func abs(x float64) float64 { return max(x, -x) }
