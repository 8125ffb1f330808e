package bandwidth

import (
	"slices"
	"time"
)

// A pool is the runtime of a group that has a quota: the kernel's struct
// cfs_bandwidth, and what each CPU has drawn from it.
type pool struct {
	Bandwidth
	Kernel
	runtime time.Duration // not yet drawn
	snap    time.Duration // runtime after the last refill
	edge    time.Duration // the next period edge, if the timer runs
	active  bool          // the timer runs
	idle    bool          // nothing was drawn since the last edge
	stat    *Stat
	cpus    []cpu
	waiting int // CPUs that are throttled
}

// A cpu is a group's part of a CPU: the kernel's struct cfs_rq.
type cpu struct {
	remaining time.Duration // drawn and not used; below 0: used before it was drawn
	running   bool          // has threads of the group
	throttled bool          // they stand still
}

// newPool returns a pool with one quota, as the kernel makes it, and what was saved.
func newPool(s Setting, k Kernel, cpus []cpu, stat *Stat) *pool {
	p := &pool{Bandwidth: s.Bandwidth, Kernel: k, runtime: s.Quota, edge: s.Phase % s.Period, cpus: cpus, stat: stat}
	if s.Rested {
		p.runtime += s.Burst
	}
	p.snap = p.runtime
	return p
}

// start starts the period timer. Its edges keep their distance from the phase.
func (p *pool) start(now time.Duration) {
	if p.active {
		return
	}
	p.active = true
	if p.edge <= now {
		p.edge += ((now-p.edge)/p.Period + 1) * p.Period
	}
}

// draw takes a slice for a CPU that has used what it had; the CPU is throttled where
// nothing is left.
func (p *pool) draw(c *cpu, now time.Duration) {
	p.start(now)
	if p.runtime > 0 {
		amount := min(p.runtime, p.Slice-c.remaining)
		p.runtime -= amount
		c.remaining += amount
		p.idle = false
	}
	if c.remaining <= 0 {
		c.throttled = true
		p.waiting++
	}
}

// empty reports whether there is nothing to draw, and no CPU has anything left.
func (p *pool) empty() bool {
	return p.runtime == 0 && !slices.ContainsFunc(p.cpus, func(c cpu) bool { return c.remaining > 0 })
}

// enter puts threads on a CPU.
func (p *pool) enter(c *cpu, now time.Duration) {
	c.running = true
	if c.remaining <= 0 {
		p.draw(c, now)
	}
}

// leave takes the threads from a CPU, which gives back what it does not keep.
func (p *pool) leave(c *cpu) {
	c.running = false
	if back := c.remaining - p.Kept; back > 0 {
		p.runtime += back
		c.remaining -= back
	}
}

// refill is the period's edge.
func (p *pool) refill() {
	p.stat.Periods++
	p.replenish()
	p.edge += p.Period
	if p.waiting == 0 {
		p.active = !p.idle // a second edge without use stops the timer
		p.idle = true
		return
	}
	p.stat.Throttled++
	p.idle = false
	p.distribute()
}

// replenish adds a quota to the runtime: the kernel's __refill_cfs_bandwidth_runtime.
func (p *pool) replenish() {
	p.runtime += p.Quota
	if over := p.snap - p.runtime; over > 0 {
		p.stat.Bursts++
		p.stat.BurstTime += over
	}
	p.runtime = min(p.runtime, p.Quota+p.Burst)
	p.snap = p.runtime
}

// distribute lets throttled CPUs go on: what they owe is paid, the next tick draws more.
func (p *pool) distribute() {
	for i := range p.cpus {
		c := &p.cpus[i]
		if !c.throttled || p.runtime == 0 {
			continue
		}
		amount := min(p.runtime, 1-c.remaining)
		p.runtime -= amount
		c.remaining += amount
		if c.remaining > 0 {
			c.throttled = false
			p.waiting--
		}
	}
}
