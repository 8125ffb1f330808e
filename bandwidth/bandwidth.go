// Package bandwidth is the kernel's CFS bandwidth control as a model: what a quota,
// its period and its burst do to a group whose demand is known. It is pure: no
// files, no clock, no randomness. Words are the kernel's (kernel/sched/fair.c,
// Documentation/scheduler/sched-bwc.rst); times are virtual, from the model's start.
//
// The folders below it hold what goes with it: recordings of real CPU use, and
// what can be read from them.
package bandwidth

import (
	"fmt"
	"time"
)

// A Bandwidth is what a group is allowed: cpu.max and cpu.max.burst, on cgroup v1
// cpu.cfs_quota_us, cpu.cfs_period_us and cpu.cfs_burst_us.
type Bandwidth struct {
	Quota  time.Duration // CPU time per period; 0: no limit
	Period time.Duration
	Burst  time.Duration // what may be saved up of the quota; at most the quota
}

// Bounds of the kernel for a quota and its period, and the kernel's default period (kernel/sched/core.c).
const (
	MinQuota      = time.Millisecond
	MinPeriod     = time.Millisecond
	MaxPeriod     = time.Second
	DefaultPeriod = 100 * time.Millisecond
)

// MinRaisePeriod is the shortest period of a group whose quota package burst raises: its loop reads the group once per period.
const MinRaisePeriod = 10 * time.Millisecond

// Limit is the bandwidth in CPUs; 0: no limit.
func (b Bandwidth) Limit() float64 {
	if b.Quota == 0 {
		return 0
	}
	return float64(b.Quota) / float64(b.Period)
}

// Check refuses what the kernel refuses.
func (b Bandwidth) Check() error {
	switch {
	case b.Quota == 0 && b.Burst == 0:
		return nil
	case b.Quota < MinQuota:
		return fmt.Errorf("quota %v: want %v or more, or 0 for none", b.Quota, MinQuota)
	case b.Period < MinPeriod || b.Period > MaxPeriod:
		return fmt.Errorf("period %v: want %v to %v", b.Period, MinPeriod, MaxPeriod)
	case b.Burst < 0 || b.Burst > b.Quota:
		return fmt.Errorf("burst %v: want 0 to the quota, %v", b.Burst, b.Quota)
	}
	return nil
}

// A Kernel is how finely a kernel counts. All are above 0.
type Kernel struct {
	Tick  time.Duration // how often a busy CPU is charged: 1 s / CONFIG_HZ
	Slice time.Duration // what a CPU draws at once: sched_cfs_bandwidth_slice_us
	Kept  time.Duration // what a CPU does not give back when it goes idle: min_cfs_rq_runtime
}

// Linux is what distributions ship: 250 ticks a second, the other two as the kernel has them.
var Linux = Kernel{Tick: 4 * time.Millisecond, Slice: 5 * time.Millisecond, Kept: time.Millisecond}

// A Stat is what a group has used since the model's start, counted as cpu.stat does.
type Stat struct {
	Usage         time.Duration // CPU time
	Periods       uint64        // period edges while the group's timer ran
	Throttled     uint64        // those at which a CPU stood still
	ThrottledTime time.Duration // how long, summed over CPUs
	Bursts        uint64        // periods that used more than the quota
	BurstTime     time.Duration
}
