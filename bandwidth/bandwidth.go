// Package bandwidth models the kernel's CFS bandwidth control. It computes the effect of a quota, its period and its
// burst on a group with a known demand.
//
// A Sim is a set of groups on the same CPUs, each with a Setting. The caller adds work with Sim.Add, advances the
// virtual time with Sim.Run and reads a group's counters with Sim.Stat. The package is pure: it uses no files, no
// clock and no random numbers. A time.Duration that stands for a moment is the virtual time since the start of the
// Sim.
//
// The package uses the terms of the kernel (kernel/sched/fair.c, Documentation/scheduler/sched-bwc.rst). The quota of
// a group is refilled once per period, at a period edge. Runtime is the CPU time of a quota that is not used yet. A
// group has a pool of runtime, from which each CPU draws a slice. A CPU without runtime is throttled: the group's
// threads on this CPU cannot run.
//
// The model does not read or write cgroups. Of the packages in subfolders, record records real CPU use, timescale
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
	Burst  time.Duration // maximum unused quota that accumulates; not above Quota
}

// The kernel's bounds of quotas and periods, and the kernel's default period (kernel/sched/core.c).
const (
	MinQuota      = time.Millisecond
	MinPeriod     = time.Millisecond
	MaxPeriod     = time.Second
	DefaultPeriod = 100 * time.Millisecond
)

// MinRaisePeriod is a lower bound of periods: package quota does not change the quota of a group with a shorter
// period, because quota.Loop reads a group once per period.
const MinRaisePeriod = 10 * time.Millisecond

// Limit returns the quota divided by the period, which is a number of CPUs; 0 means no limit.
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

// A Kernel holds the time granularities of a kernel. All must be above 0.
type Kernel struct {
	Tick        time.Duration // interval at which the kernel charges a busy CPU for used runtime: 1 s / CONFIG_HZ
	Slice       time.Duration // runtime that a CPU draws from the pool at once: sched_cfs_bandwidth_slice_us
	IdleReserve time.Duration // runtime that a CPU retains when it becomes idle: min_cfs_rq_runtime
}

// Linux has the values of common distributions: 250 ticks per second, and the kernel's defaults for Slice and
// IdleReserve.
var Linux = Kernel{Tick: 4 * time.Millisecond, Slice: 5 * time.Millisecond, IdleReserve: time.Millisecond}

// A Stat holds the counters of a group since the model's start, as in cpu.stat.
type Stat struct {
	Usage         time.Duration // CPU time
	Periods       uint64        // period edges while the group's period timer ran
	Throttled     uint64        // periods at whose end a CPU was throttled
	ThrottledTime time.Duration // throttled time, summed over CPUs
	Bursts        uint64        // periods in which the group used more than the quota
	BurstTime     time.Duration // runtime used beyond the quota in such periods
}
