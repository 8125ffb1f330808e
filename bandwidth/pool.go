package bandwidth

import (
	"slices"
	"time"
)

// A pool holds the runtime of a group with a quota, as the kernel's struct cfs_bandwidth does, and the state of the
// group on each CPU.
type pool struct {
	Bandwidth
	Kernel
	runtime        time.Duration // runtime that no CPU has drawn
	lastRuntime    time.Duration // value of runtime after the last refill
	edge           time.Duration // next period edge, while the timer runs
	isTimerRunning bool          // the period timer runs
	isIdle         bool          // no CPU has drawn since the last edge
	stat           *Stat
	cpus           []cpu
	throttledCPUs  int // number of throttled CPUs
}

// A cpu is the state of a group on a CPU, as in the kernel's struct cfs_rq.
type cpu struct {
	remaining   time.Duration // runtime that was drawn and not used; negative: runtime that was used before it was drawn
	isRunning   bool          // the CPU has threads of the group
	isThrottled bool          // the threads on the CPU cannot run, because the CPU has no runtime
}

// newPool returns a pool with the runtime of one quota, as in the kernel. With Setting.HasFullBurst it adds the burst.
func newPool(s Setting, k Kernel, cpus []cpu, stat *Stat) *pool {
	p := &pool{Bandwidth: s.Bandwidth, Kernel: k, runtime: s.Quota, edge: s.Phase % s.Period, cpus: cpus, stat: stat}
	if s.HasFullBurst {
		p.runtime += s.Burst
	}
	p.lastRuntime = p.runtime
	return p
}

// startTimer starts the period timer, if it does not run. The next edge is a whole number of periods after the former
// edges.
func (p *pool) startTimer(now time.Duration) {
	if p.isTimerRunning {
		return
	}
	p.isTimerRunning = true
	if p.edge <= now {
		p.edge += ((now-p.edge)/p.Period + 1) * p.Period
	}
}

// draw moves runtime from the pool to a CPU without runtime, up to a slice. It throttles the CPU if the pool does not
// have enough runtime.
func (p *pool) draw(c *cpu, now time.Duration) {
	p.startTimer(now)
	if p.runtime > 0 {
		amount := min(p.runtime, p.Slice-c.remaining)
		p.runtime -= amount
		c.remaining += amount
		p.isIdle = false
	}
	if c.remaining <= 0 {
		c.isThrottled = true
		p.throttledCPUs++
	}
}

// isEmpty reports whether neither the pool nor a CPU has runtime.
func (p *pool) isEmpty() bool {
	return p.runtime == 0 && !slices.ContainsFunc(p.cpus, func(c cpu) bool { return c.remaining > 0 })
}

// addThreads puts threads of the group on a CPU.
func (p *pool) addThreads(c *cpu, now time.Duration) {
	c.isRunning = true
	if c.remaining <= 0 {
		p.draw(c, now)
	}
}

// removeThreads removes the group's threads from a CPU. The CPU returns its runtime to the pool, except IdleReserve.
func (p *pool) removeThreads(c *cpu) {
	c.isRunning = false
	if surplus := c.remaining - p.IdleReserve; surplus > 0 {
		p.runtime += surplus
		c.remaining -= surplus
	}
}

// refill does the work of a period edge.
func (p *pool) refill() {
	p.stat.Periods++
	p.replenish()
	p.edge += p.Period
	if p.throttledCPUs == 0 {
		p.isTimerRunning = !p.isIdle // the timer stops at the second edge in a row without a draw
		p.isIdle = true
		return
	}
	p.stat.Throttled++
	p.isIdle = false
	p.distribute()
}

// replenish adds a quota to the pool's runtime, as the kernel's __refill_cfs_bandwidth_runtime does.
func (p *pool) replenish() {
	p.runtime += p.Quota
	if excess := p.lastRuntime - p.runtime; excess > 0 {
		p.stat.Bursts++
		p.stat.BurstTime += excess
	}
	p.runtime = min(p.runtime, p.Quota+p.Burst)
	p.lastRuntime = p.runtime
}

// distribute unthrottles the throttled CPUs one after another, until the pool is empty. Each CPU gets enough runtime for a balance of
// 1 ns, and draws more at the next tick.
func (p *pool) distribute() {
	for i := range p.cpus {
		c := &p.cpus[i]
		if !c.isThrottled || p.runtime == 0 {
			continue
		}
		amount := min(p.runtime, 1-c.remaining)
		p.runtime -= amount
		c.remaining += amount
		if c.remaining > 0 {
			c.isThrottled = false
			p.throttledCPUs--
		}
	}
}
