package cgroup

import (
	"syscall"
	"testing"
	"time"
)

// TestThrottle runs a busy process under a quota: its mean CPU time must stay within the quota. A single
// period may exceed the quota, in particular if a virtual CPU stood still. The kernel compensates later.
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
		used, periods := after.CPU-before.CPU, time.Duration(last.Periods-before.Periods)
		return periods >= 12 && used > 0 && used < (periods+2)*quota*115/100
	})
	if after.Throttled == before.Throttled || after.ThrottledTime == before.ThrottledTime {
		t.Errorf("never throttled: %+v", after)
	}
	if sum := sum(after.PerCPU); tr.acct != nil && (sum == 0 || sum > after.CPU*2) {
		t.Errorf("per CPU %v, in all %v", after.PerCPU, after.CPU)
	}
	// Without a quota the process is not throttled: the counters of throttling stay.
	must(t, g.Apply(Settings{CPUs: a, Period: period}))
	freed, err := g.Stat()
	must(t, err)
	eventually(t, "200 ms of CPU time without a quota", func() bool {
		after, err = g.Stat()
		must(t, err)
		return after.CPU > freed.CPU+200*time.Millisecond
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

// TestWeights: two groups compete for a CPU, with weights of three to one. Other work of the machine takes time from
// both.
func TestWeights(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	light, _ := group(t, tr, "light", Settings{CPUs: a, Weight: 500}, "spin")
	heavy, _ := group(t, tr, "heavy", Settings{CPUs: a, Weight: 1500}, "spin")
	usage := func(g *Group) time.Duration {
		s, err := g.Stat()
		must(t, err)
		return s.CPU
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
	// The extreme weights become the kernel's minimum and maximum.
	tr := tree(t)
	a, _ := two(t, tr)
	for _, weight := range []int{1, 1 << 40} {
		g, _ := group(t, tr, "web", Settings{CPUs: a, Weight: weight}, "")
		s, err := g.state()
		if want := tr.cpu.kernelWeight(weight); err != nil || s.weight != want {
			t.Errorf("weight %d: the kernel has %d, %v; want %d", weight, s.weight, err, want)
		}
		must(t, g.Kill(syscall.SIGKILL)) // the group has no processes
		must(t, g.Remove())
	}
}
