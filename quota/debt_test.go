package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/bandwidth"
)

// A logger is a container in the model whose helper copies its output, on a CPU of their own. The container always has
// work, but it waits while the pipe to the helper is full.
type logger struct {
	*lab
	perOwn   float64       // helper CPU time for own CPU time
	pipe     time.Duration // maximum work of the helper in the pipe
	lag      time.Duration // the charges are measured at multiples of this time
	measured time.Duration // charges at the last measurement
	seen     time.Duration // own CPU time whose output is in the pipe
	readAt   time.Duration // time of the last measurement
	isFrozen bool
	isIdle   bool          // the container has no more work
	changed  time.Duration // last change of isFrozen
	stopped  time.Duration // work of the frozen container
	longest  time.Duration // longest time in the freezer without interruption
	frozen   time.Duration // total time in the freezer
	readings int           // readings of the frozen container
}

func newLogger(limit, maxQuota time.Duration, perOwn float64, canFreeze bool) *logger {
	s := bandwidth.Setting{Bandwidth: bandwidth.Bandwidth{Quota: limit, Period: 100 * ms}, Phase: 37 * ms}
	l := &logger{lab: newLab(1, maxQuota, s, bandwidth.Setting{}), perOwn: perOwn, pipe: 130 * ms, lag: 20 * ms}
	l.room = func(time.Duration) time.Duration { return max(maxQuota-limit, 0) }
	l.state.IsCharged, l.state.CanFreeze = true, canFreeze
	return l
}

// run runs the model in small steps.
func (l *logger) run(until time.Duration) {
	const step = time.Millisecond
	for l.Now() < until {
		own := l.Stat(0).Usage
		l.Add(1, time.Duration(l.perOwn*float64(own-l.seen)))
		l.seen = own
		l.feed()
		next := min(l.Now()+step, until)
		for l.wake <= next {
			l.Run(max(l.wake, l.Now()))
			l.tick()
		}
		l.Run(next)
	}
}

// feed gives the container work whose output fits into the pipe.
func (l *logger) feed() {
	free := time.Duration(float64(l.pipe-l.Backlog(1)) / max(l.perOwn, 0.01))
	if missing := min(2*ms, free) - l.Backlog(0); missing > 0 && !l.isFrozen && !l.isIdle {
		l.Add(0, missing)
	}
}

func (l *logger) tick() {
	if at := l.Now() - l.Now()%l.lag; at > l.readAt {
		l.measured, l.readAt = l.Stat(1).Usage, at
	}
	a := l.control(l.measured, 0)
	if l.isFrozen {
		l.readings++
	}
	if a.Frozen == l.isFrozen {
		return
	}
	if l.isFrozen {
		l.frozen += l.Now() - l.changed
		l.longest = max(l.longest, l.Now()-l.changed)
		l.Add(0, l.stopped)
	} else {
		l.stopped = l.Drop(0)
	}
	l.isFrozen, l.changed = a.Frozen, l.Now()
}

// use returns the CPU time of the container and its helper.
func (l *logger) use() time.Duration { return l.Stat(0).Usage + l.Stat(1).Usage }

// programs are the programs of the paper, as measured with containerd: helper CPU time for own CPU time.
var programs = map[string]float64{"yes": 120, "lsmod": 0.63, "echo": 1.6}

// TestFrozenReadings: a frozen container with much debt is read less often than once in a freezeTick.
func TestFrozenReadings(t *testing.T) {
	for _, limit := range []time.Duration{50 * ms, 20 * ms, 2 * ms} {
		l := newLogger(limit, 0, programs["yes"], true)
		l.run(20 * time.Second)
		perSecond := float64(l.readings) / l.frozen.Seconds()
		t.Logf("limit %v: frozen for %v, %.1f readings per second", limit, l.frozen, perSecond)
		if l.frozen < 5*time.Second || perSecond > 20 {
			t.Errorf("limit %v: frozen for %v, %.1f readings per second", limit, l.frozen, perSecond)
		}
	}
}

// TestLimitHoldsForHelpers: the own CPU time and the charges of a container together use its limit, over 10 s within 1 %,
// and in each second within a quarter. A pipe's worth of helper work comes on top: it can be in the pipe at the start or at
// the end.
func TestLimitHoldsForHelpers(t *testing.T) {
	for _, limit := range []time.Duration{50 * ms, 33 * ms, 25 * ms, 20 * ms} {
		for name, perOwn := range programs {
			for _, maxQuota := range []time.Duration{0, 100 * ms} {
				l := newLogger(limit, maxQuota, perOwn, true)
				l.run(5 * time.Second)
				before, lowest, highest := l.use(), 1.0, 0.0
				for range 10 {
					was := l.use()
					l.run(l.Now() + time.Second)
					share := (l.use() - was).Seconds()
					lowest, highest = min(lowest, share), max(highest, share)
				}
				share, want := (l.use()-before).Seconds()/10, float64(limit)/float64(100*ms)
				inPipe := 0.0
				if perOwn > 100 {
					inPipe = l.pipe.Seconds()
				}
				t.Logf("%s, limit %.2f, raised up to %v: %.4f (%.3f to %.3f), saved %v, %d writes, frozen up to %v", name, want, maxQuota, share, lowest, highest, l.state.Saved, len(l.writes), l.longest)
				if share < 0.99*want-inPipe/10 || share > 1.01*want+inPipe/10 {
					t.Errorf("%s, limit %.2f, raised up to %v: own and helper use %.4f CPUs", name, want, maxQuota, share)
				}
				if lowest < 0.75*want-inPipe || highest > 1.25*want+inPipe {
					t.Errorf("%s, limit %.2f, raised up to %v: from %.3f to %.3f CPUs in a second", name, want, maxQuota, lowest, highest)
				}
				if l.longest > maxFrozenTime+freezeTick {
					t.Errorf("%s, limit %.2f: frozen for %v", name, want, l.longest)
				}
			}
		}
	}
}

// drawLogger draws a container with a random limit, burst and helper, whose loop wakes at most latest too late.
func drawLogger(t *rapid.T, latest time.Duration) *logger {
	limit := span(2*ms, 400*ms).Draw(t, "limit")
	maxQuota := limit * time.Duration(rapid.IntRange(0, 3).Draw(t, "most"))
	l := newLogger(limit, maxQuota, rapid.Float64Range(0.01, 200).Draw(t, "per own"), rapid.Bool().Draw(t, "can freeze"))
	l.pipe, l.lag = span(ms, 200*ms).Draw(t, "pipe"), span(ms, 200*ms).Draw(t, "lag")
	l.delay = func() time.Duration { return span(0, latest).Draw(t, "delay") }
	if l.state.IsUnlimited = rapid.Bool().Draw(t, "unlimited"); l.state.IsUnlimited {
		l.has.Quota, l.state.MaxQuota = 0, 0
		l.Set(0, l.has)
	}
	return l
}

// TestDebtEnds: a container whose helper has no more work pays its debt, and gets its limit back when it is idle. Its quota is in the bounds at any
// time, and no write repeats the present quota.
func TestDebtEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLogger(t, 5*ms)
		l.run(span(0, 8*time.Second).Draw(t, "busy"))
		has := l.state.base()
		for _, w := range l.writes {
			quota := Limit(w.quota)
			if isLow := quota < l.state.base(); quota == has || isLow && quota < Limit(bandwidth.MinQuota) {
				t.Fatalf("quota %v after %v: %v", w.quota, time.Duration(has), l.writes)
			}
			if quota > Limit(max(l.state.Quota, l.state.MaxQuota)) && quota != l.state.base() {
				t.Fatalf("quota %v, limit %v, most %v", w.quota, l.state.Quota, l.state.MaxQuota)
			}
			has = quota
		}
		l.perOwn = 0
		debt := max(-l.state.Saved, 0) + l.Backlog(1)
		paid := 10*time.Duration(float64(debt)/float64(l.state.Quota)*float64(l.state.Period)) + 20*time.Second
		l.run(l.Now() + paid)
		if l.isFrozen || l.state.Saved < -2*l.state.Quota-10*ms {
			t.Fatalf("after %v without helper work: frozen %v, saved %v, limit %v", paid, l.isFrozen, l.state.Saved, l.state.Quota)
		}
		l.isIdle = true
		l.Drop(0)
		l.run(l.Now() + 2*time.Second)
		if l.state.InForce != l.state.base() {
			t.Fatalf("idle: quota %v of %v, saved %v", time.Duration(l.state.InForce), l.state.Quota, l.state.Saved)
		}
	})
}

// TestLimitBoundsHelpers: in any ten seconds or more, own CPU time and charges use at most the limit, the savings, and the
// work that is in the pipe or not yet measured, as long as the kernel's lowest quota or the freezer can hold the limit.
func TestLimitBoundsHelpers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLogger(t, 2*ms)
		if !l.state.CanFreeze { // the lowest quota holds the limit
			highest := 0.5 * float64(l.state.Quota) / float64(bandwidth.MinQuota)
			l.perOwn = min(l.perOwn, rapid.Float64Range(0.01, highest).Draw(t, "lower per own"))
		}
		// The freezer holds the limit if the limit allows the work of a full pipe within half of the longest freeze.
		longest := l.state.Allowance(maxFrozenTime/2) - 20*ms
		if longest < ms {
			t.Skip("the limit cannot hold")
		}
		l.pipe = min(l.pipe, longest)
		l.run(3 * time.Second)
		before, from := l.use(), l.Now()
		l.run(from + span(10*time.Second, 20*time.Second).Draw(t, "span"))
		used, allowed := l.use()-before, l.state.Allowance(l.Now()-from)
		slack := allowed/100 + 2*l.pipe + 2*l.state.Quota + time.Duration(l.perOwn*float64(ms)) + l.state.Allowance(2*l.lag)
		if l.state.CanRaise() {
			slack += l.state.Allowance(800 * ms)
		}
		if used > allowed+slack {
			t.Fatalf("used %v in %v, limit %v, slack %v, saved %v, %d writes", used, l.Now()-from, allowed, slack, l.state.Saved, len(l.writes))
		}
	})
}

// TestOtherProcessRaises: without a lease, the quota that another process has raised stays. The group asks for a lease.
func TestOtherProcessRaises(t *testing.T) {
	s := State{}
	s.Quota, s.Period, s.MaxQuota, s.IsCharged = 50*ms, 100*ms, 150*ms, true
	s.InForce = Limit(120 * ms)
	var a Action
	for at := time.Duration(0); at < 2*time.Second; at = a.Wake {
		s, a = s.Next(Sample{At: at, Used: at / 100, Periods: uint64(at / (100 * ms))})
		if a.Write || !a.NeedsLease {
			t.Fatalf("at %v: got %+v, want no write and the need for a lease", at, a)
		}
	}
	if _, a = s.Next(Sample{At: a.Wake, Used: a.Wake / 100, Periods: uint64(a.Wake / (100 * ms)), IsLeased: true}); !a.Write || a.Quota != Limit(50*ms) {
		t.Errorf("with a lease: got %+v, want the limit", a)
	}
}

// TestNothingChangesWithoutLease: without a lease, debt neither changes the quota nor freezes the group.
func TestNothingChangesWithoutLease(t *testing.T) {
	s := State{}
	s.Quota, s.Period, s.IsCharged, s.CanFreeze = 50*ms, 100*ms, true, true
	var a Action
	for at := time.Duration(0); at < 5*time.Second; at = a.Wake {
		s, a = s.Next(Sample{At: at, Used: at / 100, Charged: at, Periods: uint64(at / (100 * ms))})
		if a.Write || a.Frozen {
			t.Fatalf("at %v: got %+v", at, a)
		}
	}
	if !a.NeedsLease || s.Saved > -time.Second {
		t.Errorf("the debt asks for no lease: %+v, saved %v", a, s.Saved)
	}
}

// TestCanWait: a charged group can wait when it has been quiet for maxQuietAge, and not with charges or debt.
func TestCanWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		charged float64 // CPUs of the helpers
		burst   time.Duration
		until   time.Duration
		want    bool
	}{
		{"idle", 0, 0, 6 * time.Second, true},
		{"few charges", 0.02, 0, 6 * time.Second, true},
		{"started lately", 0, 0, 4 * time.Second, false},
		{"many charges", 0.1, 0, 6 * time.Second, false},
		{"debt", 0.6, 0, 6 * time.Second, false},
		{"raised quota", 0, 150 * ms, 6 * time.Second, false},
	} {
		s := State{}
		s.Quota, s.Period, s.MaxQuota, s.IsCharged = 50*ms, 100*ms, c.burst, true
		var a Action
		for at := time.Duration(0); at < c.until; at = a.Wake {
			s, a = s.Next(Sample{At: at, Charged: time.Duration(c.charged * float64(at)), Periods: uint64(at / (100 * ms)), IsLeased: true})
		}
		if a.CanWait != c.want {
			t.Errorf("%s: got %v, want %v", c.name, a.CanWait, c.want)
		}
	}
}
