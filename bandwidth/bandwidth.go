// Package bandwidth models the kernel's CFS bandwidth control. It computes the effect of a quota, its period and its
// burst on a group with a known demand.
//
// A Sim is a set of groups on the same CPUs, each with a Setting. The caller adds work with Sim.Add, advances the
// virtual time with Sim.Run and reads a group's counters with Sim.Stat. The package is pure: it has no files, no
// clock and no randomness. Its terms are the kernel's (kernel/sched/fair.c, Documentation/scheduler/sched-bwc.rst).
// Times count from the model's start.
//
// The model does not read or write cgroups. Package record in the folder record records real CPU use, timescale
// analyzes recordings, and advise recommends limits.
package bandwidth

import (
	"fmt"
	"time"
)

// A Bandwidth is the CPU bandwidth of a group: cpu.max and cpu.max.burst on cgroup v2; cpu.cfs_quota_us,
// cpu.cfs_period_us and cpu.cfs_burst_us on v1.
type Bandwidth struct {
	Quota  time.Duration // CPU time per period; 0: no limit
	Period time.Duration
	Burst  time.Duration // unused quota that can accumulate; at most the quota
}

// The kernel's bounds of a quota and its period, and its default period (kernel/sched/core.c).
const (
	MinQuota      = time.Millisecond
	MinPeriod     = time.Millisecond
	MaxPeriod     = time.Second
	DefaultPeriod = 100 * time.Millisecond
)

// MinRaisePeriod is the shortest period of a group whose quota package burst raises, because its loop reads the group
// once per period.
const MinRaisePeriod = 10 * time.Millisecond

// Limit returns the bandwidth in CPUs; 0 means no limit.
func (b Bandwidth) Limit() float64 {
	if b.Quota == 0 {
		return 0
	}
	return float64(b.Quota) / float64(b.Period)
}

// Check returns an error for a bandwidth that the kernel refuses.
func (b Bandwidth) Check() error {
	switch {
	case b.Quota == 0 && b.Burst == 0:
		return nil
	case b.Quota < MinQuota:
		return fmt.Errorf("quota %v: must be %v or more, or 0 for none", b.Quota, MinQuota)
	case b.Period < MinPeriod || b.Period > MaxPeriod:
		return fmt.Errorf("period %v: must be %v to %v", b.Period, MinPeriod, MaxPeriod)
	case b.Burst < 0 || b.Burst > b.Quota:
		return fmt.Errorf("burst %v: must be 0 to the quota, %v", b.Burst, b.Quota)
	}
	return nil
}

// A Kernel holds the time granularities of a kernel. All are above 0.
type Kernel struct {
	Tick  time.Duration // interval at which a busy CPU is charged: 1 s / CONFIG_HZ
	Slice time.Duration // amount that a CPU draws at once: sched_cfs_bandwidth_slice_us
	Kept  time.Duration // amount that a CPU retains when it becomes idle: min_cfs_rq_runtime
}

// Linux has the usual values of distributions: 250 ticks per second, and the kernel's defaults for the other two.
var Linux = Kernel{Tick: 4 * time.Millisecond, Slice: 5 * time.Millisecond, Kept: time.Millisecond}

// A Stat holds the counters of a group since the model's start, as in cpu.stat.
type Stat struct {
	Usage         time.Duration // CPU time
	Periods       uint64        // period edges while the group's timer ran
	Throttled     uint64        // periods in which a CPU was throttled
	ThrottledTime time.Duration // throttled time, summed over CPUs
	Bursts        uint64        // periods that used more than the quota
	BurstTime     time.Duration
}
