package bandwidth

import (
	"testing"
	"time"
)

const ms = time.Millisecond

// fine has ticks and slices so small that a test can compute the results by hand.
var fine = Kernel{Tick: 10 * time.Microsecond, Slice: 10 * time.Microsecond, IdleReserve: time.Microsecond}

// near reports whether two times are equal within the resolution of fine on a few CPUs.
func near(a, b time.Duration) bool { return (a - b).Abs() <= ms/5 }

// TestAlwaysBusy: a thread that is always busy uses exactly the quota in each period.
func TestAlwaysBusy(t *testing.T) {
	for _, k := range []Kernel{fine, Linux} {
		s := New(k, 2, Setting{Bandwidth: Bandwidth{Quota: 50 * ms, Period: 100 * ms}})
		s.Add(0, time.Hour)
		s.Run(10 * time.Second)
		got := s.Stat(0)
		if (got.Usage-5*time.Second).Abs() > 2*k.Slice || got.Periods != 100 || got.Throttled != 100 {
			t.Errorf("%+v: %+v, want 5 s of use and 100 of 100 periods throttled", k, got)
		}
		if (got.ThrottledTime-5*time.Second).Abs() > 10*k.Slice || got.Bursts != 0 || got.BurstTime != 0 {
			t.Errorf("%+v: %+v, want 5 s throttled and no burst", k, got)
		}
	}
}

// TestGoodput: four threads count for 200 ms under a limit of two CPUs, as in the program of "Kubernetes Scheduling
// and Timescales". Their CPU time depends on the position of their start in the period.
func TestGoodput(t *testing.T) {
	for begin, want := range map[time.Duration]time.Duration{
		0:       400 * ms, // two whole periods with 200 ms each
		50 * ms: 600 * ms, // half a period, a whole period and half a period with 200 ms each
		75 * ms: 500 * ms, // a quarter of a period with 100 ms, then 200 ms twice
	} {
		s := New(fine, 4, Setting{Bandwidth: Bandwidth{Quota: 200 * ms, Period: 100 * ms}, Phase: 100*ms - begin})
		s.SetThreads(0, 4)
		s.Add(0, time.Hour)
		s.Run(200 * ms)
		if got := s.Stat(0).Usage; !near(got, want) {
			t.Errorf("from %v on: %v, want %v", begin, got, want)
		}
		left := s.Drop(0)
		if left+s.Stat(0).Usage != time.Hour {
			t.Errorf("dropped %v", left)
		}
		s.RunWhileBusy(0, time.Minute)
		if wait := s.Now() - 200*ms; wait > 100*ms || begin == 0 && wait != 0 {
			t.Errorf("from %v on: the threads end after another %v, want the next edge", begin, wait)
		}
	}
}

// TestRequests is an example from Alibaba: four parallel requests of 60 ms under a limit of two CPUs.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		burst, want time.Duration
		bursts      uint64
	}{
		{0, 110 * ms, 0},       // 200 ms in the first 50 ms, the other 40 ms after the edge
		{20 * ms, 105 * ms, 1}, // 20 ms after the edge
		{40 * ms, 60 * ms, 1},  // no wait
		{200 * ms, 60 * ms, 1},
	} {
		s := New(fine, 4, Setting{Bandwidth: Bandwidth{Quota: 200 * ms, Period: 100 * ms, Burst: c.burst}, HasFullBurst: true})
		s.SetThreads(0, 4)
		s.Add(0, 240*ms)
		begin := s.Now()
		s.Run(begin + time.Second)
		if got := s.DoneAt(0) - begin; !near(got, c.want) {
			t.Errorf("burst %v: done after %v, want %v", c.burst, got, c.want)
		}
		if got := s.Stat(0); got.Bursts != c.bursts || !near(got.BurstTime, min(c.burst, 40*ms)) {
			t.Errorf("burst %v: %+v", c.burst, got)
		}
	}
}

// TestSaving: a new group has no savings. After some work and two idle edges its savings are at the maximum.
func TestSaving(t *testing.T) {
	s := New(fine, 1, Setting{Bandwidth: Bandwidth{Quota: 50 * ms, Period: 100 * ms, Burst: 30 * ms}})
	for _, want := range []time.Duration{50 * ms, 80 * ms} {
		begin, before := s.Now(), s.Stat(0).Usage
		s.Add(0, time.Hour)
		s.Run(begin + 99*ms)
		if got := s.Stat(0).Usage - before; !near(got, want) {
			t.Errorf("from %v on: %v, want %v", begin, got, want)
		}
		s.Drop(0)
		s.Run(begin + time.Second)
	}
}

// TestTimerStops: periods count only while the group uses CPU time, and at the next two edges.
func TestTimerStops(t *testing.T) {
	s := New(Linux, 1, Setting{Bandwidth: Bandwidth{Quota: 50 * ms, Period: 100 * ms}, Phase: 30 * ms})
	s.Run(time.Second)
	if got := s.Stat(0); got != (Stat{}) {
		t.Errorf("idle: %+v", got)
	}
	s.Add(0, 10*ms)
	s.Run(2 * time.Second)
	if got := s.Stat(0); got.Periods != 2 || got.Throttled != 0 || s.DoneAt(0) != 1010*ms {
		t.Errorf("after 10 ms of work: %+v, done at %v", got, s.DoneAt(0))
	}
}

// TestRuntimeOfIdleCPU: a CPU that becomes idle returns the unused part of its slice except 1 ms. The other
// CPUs cannot use this rest.
func TestRuntimeOfIdleCPU(t *testing.T) {
	k := Kernel{Tick: fine.Tick, Slice: 5 * ms, IdleReserve: ms}
	s := New(k, 3, Setting{Bandwidth: Bandwidth{Quota: 20 * ms, Period: 100 * ms}})
	s.SetThreads(0, 3)
	s.Add(0, 3*ms/100) // each CPU draws 5 ms
	s.Run(ms)
	s.SetThreads(0, 1)
	s.Add(0, time.Second)
	s.Run(100*ms - 1)
	if got := s.Stat(0).Usage; !near(got, 18*ms) {
		t.Errorf("%v, want 20 ms less what two CPUs keep", got)
	}
}

// TestAllCPUsResume: at a period's edge all throttled CPUs resume, even if the quota is less than a slice for
// each CPU.
func TestAllCPUsResume(t *testing.T) {
	s := New(Linux, 4, Setting{Bandwidth: Bandwidth{Quota: 8 * ms, Period: 100 * ms}})
	s.SetThreads(0, 4)
	s.Add(0, time.Hour)
	for edge := 300 * ms; edge < time.Second; edge += 100 * ms {
		s.Run(edge - 1)
		if got := s.groups[0].running; got != 0 {
			t.Errorf("at %v the group runs on %d CPUs", s.Now(), got)
		}
		s.Run(edge + ms)
		if got := s.groups[0].running; got < 2 {
			t.Errorf("at %v the group runs on %d CPUs", s.Now(), got)
		}
	}
}

// TestWeights checks the CPU time of two groups that compete for the same CPUs.
func TestWeights(t *testing.T) {
	for _, c := range []struct {
		name               string
		threadsA, threadsB int
		weightA, weightB   int
		quotaB             time.Duration
		wantA, wantB       float64
	}{
		{"equal", 4, 4, 1, 1, 0, 1, 1},
		{"one to three", 4, 4, 1, 3, 0, 0.5, 1.5},
		{"heavy, but of one thread", 1, 4, 3, 1, 0, 1, 1},
		{"room for all", 1, 1, 9, 1, 0, 1, 1},
		{"the other is limited", 4, 4, 1, 1, 25 * ms, 1.75, 0.25},
	} {
		s := New(fine, 2, Setting{Weight: c.weightA}, Setting{Weight: c.weightB, Bandwidth: Bandwidth{Quota: c.quotaB, Period: 100 * ms}})
		s.SetThreads(0, c.threadsA)
		s.SetThreads(1, c.threadsB)
		s.Add(0, time.Hour)
		s.Add(1, time.Hour)
		s.Run(10 * time.Second)
		gotA, gotB := s.Stat(0).Usage.Seconds()/10, s.Stat(1).Usage.Seconds()/10
		if abs(gotA-c.wantA) > 0.002 || abs(gotB-c.wantB) > 0.002 {
			t.Errorf("%s: %.3f and %.3f CPUs, want %v and %v", c.name, gotA, gotB, c.wantA, c.wantB)
		}
	}
}

func abs(x float64) float64 { return max(x, -x) }

func TestCheck(t *testing.T) {
	for b, good := range map[Bandwidth]bool{
		{}:                      true,
		{Quota: ms, Period: ms}: true,
		{Quota: 9 * time.Second, Period: 1000 * ms}:        true,
		{Quota: 50 * ms, Period: 100 * ms, Burst: 50 * ms}: true,
		{Quota: 50 * ms, Period: 100 * ms, Burst: 51 * ms}: false,
		{Quota: 50 * ms, Period: 100 * ms, Burst: -1}:      false,
		{Quota: 50 * ms, Period: 1001 * ms}:                false,
		{Quota: 50 * ms}:                                   false,
		{Quota: ms - 1, Period: ms}:                        false,
		{Burst: ms, Period: 100 * ms}:                      false,
	} {
		if err := b.Check(); (err == nil) != good {
			t.Errorf("%+v: %v", b, err)
		}
	}
}
