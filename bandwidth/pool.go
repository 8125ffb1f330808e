package bandwidth

import (
	"slices"
	"time"
)

// A pool is the runtime of a group with a quota: the kernel's struct cfs_bandwidth, and the runtime of each CPU.
type pool struct {
	Bandwidth
	Kernel
	runtime        time.Duration // not yet drawn
	lastRuntime    time.Duration // runtime after the last refill
	edge           time.Duration // next period edge, while the timer runs
	isTimerRunning bool          // the timer runs
	isIdle         bool          // no CPU has drawn since the last edge
	stat           *Stat
	cpus           []cpu
	throttledCPUs  int // number of throttled CPUs
}

// A cpu is a group's state on a CPU: the kernel's struct cfs_rq.
type cpu struct {
	remaining   time.Duration // runtime drawn and not used; negative: used before it was drawn
	isRunning   bool          // the CPU has threads of the group
	isThrottled bool          // they cannot run
}

// newPool returns a pool with one quota, as the kernel creates it, and with the burst if the group is rested.
func newPool(s Setting, k Kernel, cpus []cpu, stat *Stat) *pool {
	p := &pool{Bandwidth: s.Bandwidth, Kernel: k, runtime: s.Quota, edge: s.Phase % s.Period, cpus: cpus, stat: stat}
	if s.Rested {
		p.runtime += s.Burst
	}
	p.lastRuntime = p.runtime
	return p
}

// start starts the period timer. Its edges stay aligned to the phase.
func (p *pool) start(now time.Duration) {
	if p.isTimerRunning {
		return
	}
	p.isTimerRunning = true
	if p.edge <= now {
		p.edge += ((now-p.edge)/p.Period + 1) * p.Period
	}
}

// draw takes a slice for a CPU without runtime. It throttles the CPU if the pool is empty.
func (p *pool) draw(c *cpu, now time.Duration) {
	p.start(now)
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

// empty reports whether neither the pool nor any CPU has runtime left.
func (p *pool) empty() bool {
	return p.runtime == 0 && !slices.ContainsFunc(p.cpus, func(c cpu) bool { return c.remaining > 0 })
}

// enter puts threads on a CPU.
func (p *pool) enter(c *cpu, now time.Duration) {
	c.isRunning = true
	if c.remaining <= 0 {
		p.draw(c, now)
	}
}

// leave removes the threads from a CPU, which returns its runtime except Kernel.Kept.
func (p *pool) leave(c *cpu) {
	c.isRunning = false
	if surplus := c.remaining - p.Kept; surplus > 0 {
		p.runtime += surplus
		c.remaining -= surplus
	}
}

// refill handles a period edge.
func (p *pool) refill() {
	p.stat.Periods++
	p.replenish()
	p.edge += p.Period
	if p.throttledCPUs == 0 {
		p.isTimerRunning = !p.isIdle // a second edge without use stops the timer
		p.isIdle = true
		return
	}
	p.stat.Throttled++
	p.isIdle = false
	p.distribute()
}

// replenish adds a quota to the runtime, as the kernel's __refill_cfs_bandwidth_runtime does.
func (p *pool) replenish() {
	p.runtime += p.Quota
	if excess := p.lastRuntime - p.runtime; excess > 0 {
		p.stat.Bursts++
		p.stat.BurstTime += excess
	}
	p.runtime = min(p.runtime, p.Quota+p.Burst)
	p.lastRuntime = p.runtime
}

// distribute unthrottles CPUs by paying their debts. They draw more at the next tick.
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
