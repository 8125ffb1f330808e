package cgroup

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	us := time.Microsecond
	for text, want := range map[string]Stat{
		"": {},
		"nr_periods 7\nnr_throttled 3\nthrottled_time 5000\nnr_bursts 2\nburst_time 9\n":                                                                                        {Periods: 7, Throttled: 3, ThrottledTime: 5 * us, Bursts: 2, BurstTime: 9},
		"usage_usec 123\nuser_usec 100\nsystem_usec 23\nnice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 1\nnr_throttled 1\nthrottled_usec 4\nnr_bursts 0\nburst_usec 6\n": {Usage: 123 * us, Periods: 1, Throttled: 1, ThrottledTime: 4 * us, BurstTime: 6 * us},
		"throttled_usec 18446744073709551615\n": {ThrottledTime: 1<<63 - 1},
	} {
		if got, err := parseStat([]byte(text)); err != nil || !equalStat(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"nr_periods", "nr_periods x\n", "nr_periods -1\n", "\n", "nr_periods 1 2\n", "nr_periods 99999999999999999999\n"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func equalStat(a, b Stat) bool {
	if !slices.Equal(a.PerCPU, b.PerCPU) {
		return false
	}
	a.PerCPU, b.PerCPU = nil, nil
	return a.Usage == b.Usage && a.Periods == b.Periods && a.Throttled == b.Throttled &&
		a.ThrottledTime == b.ThrottledTime && a.Bursts == b.Bursts && a.BurstTime == b.BurstTime
}

// TestThrottle wants more than a quota allows. A single period may hold twice
// the quota, and much more where a virtual CPU stood still; the kernel takes it back later.
func TestThrottle(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	const quota, period = 10 * time.Millisecond, 100 * time.Millisecond
	g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: quota, Period: period}, "spin")
	before, err := g.Stat()
	must(t, err)
	var after Stat
	eventually(t, "the mean of 12 periods and more is within the quota", func() bool {
		after, err = g.Stat()
		must(t, err)
		last, err := g.Stat() // for its periods: on v1 they are read before the usage
		must(t, err)
		used, periods := after.Usage-before.Usage, time.Duration(last.Periods-before.Periods)
		return periods >= 12 && used > 0 && used < (periods+2)*quota*115/100
	})
	if after.Throttled == before.Throttled || after.ThrottledTime == before.ThrottledTime {
		t.Errorf("never throttled: %+v", after)
	}
	if sum := sum(after.PerCPU); tr.acct != nil && (sum == 0 || sum > after.Usage*2) {
		t.Errorf("per CPU %v, in all %v", after.PerCPU, after.Usage)
	}
	// Without a quota the same process uses what it can: the counters of throttling stand still.
	must(t, g.Apply(Settings{CPUs: a, Period: period}))
	freed, err := g.Stat()
	must(t, err)
	eventually(t, "200 ms of CPU time without a quota", func() bool {
		after, err = g.Stat()
		must(t, err)
		return after.Usage > freed.Usage+200*time.Millisecond
	})
	if after.Throttled > freed.Throttled+1 {
		t.Errorf("throttled %d times without a quota", after.Throttled-freed.Throttled)
	}
}

func sum(usage []time.Duration) (all time.Duration) {
	for _, u := range usage {
		all += u
	}
	return all
}

// TestWeights has two groups want one CPU, one with three times the weight. What
// else runs on the machine takes from both.
func TestWeights(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	light, _ := group(t, tr, "light", Settings{CPUs: a, Weight: 500}, "spin")
	heavy, _ := group(t, tr, "heavy", Settings{CPUs: a, Weight: 1500}, "spin")
	usage := func(g *Group) time.Duration {
		s, err := g.Stat()
		must(t, err)
		return s.Usage
	}
	l, h := usage(light), usage(heavy)
	var ratio float64
	eventually(t, "three times the weight has about three times the CPU time", func() bool {
		l, h := usage(light)-l, usage(heavy)-h
		ratio = float64(h) / float64(l)
		return l+h > 2*time.Second && ratio > 2 && ratio < 4.5 // a stall of the whole machine takes time to even out
	})
	t.Logf("three times the weight has %.2f times the CPU time", ratio)
}

func TestWeightScale(t *testing.T) {
	v1, v2 := hierarchy{}, hierarchy{v2: true}
	for _, tt := range []struct {
		weight          int
		shares, weight2 int64
	}{
		{0, 1024, 100}, {1000, 1024, 100}, {2000, 2048, 200}, {1, 2, 1}, {10, 10, 1}, {900, 922, 90}, {64000, 65536, 6400},
		{100000, 102400, 10000}, {256000, 262144, 10000}, {1 << 62, 262144, 10000},
	} {
		if s, w := v1.kernelWeight(tt.weight), v2.kernelWeight(tt.weight); s != tt.shares || w != tt.weight2 {
			t.Errorf("weight %d: shares %d, weight %d; want %d, %d", tt.weight, s, w, tt.shares, tt.weight2)
		}
	}
	for weight := 10; weight <= 100000; weight += 10 {
		if got := v2.weightOf(v2.kernelWeight(weight)); got != weight {
			t.Fatalf("v2: weight %d comes back as %d", weight, got)
		}
		if got := v1.weightOf(v1.kernelWeight(weight)); abs(got-weight) > 1 {
			t.Fatalf("v1: weight %d comes back as %d", weight, got)
		}
	}
	// The ends are the kernel's own.
	tr := tree(t)
	a, _ := two(t, tr)
	for _, weight := range []int{1, 1 << 40} {
		g, _ := group(t, tr, "web", Settings{CPUs: a, Weight: weight}, "")
		s, err := g.state()
		if want := tr.cpu.kernelWeight(weight); err != nil || s.weight != want {
			t.Errorf("weight %d: the kernel has %d, %v; want %d", weight, s.weight, err, want)
		}
		must(t, g.Kill(syscall.SIGKILL)) // of nobody
		must(t, g.Remove())
	}
}
