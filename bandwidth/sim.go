package bandwidth

import (
	"math"
	"time"
)

// A Sim simulates groups on the same CPUs. Its methods identify a group by the index of the group's setting in the
// arguments of New. A Sim is not safe for concurrent use.
type Sim struct {
	Kernel
	cpus   float64
	groups []*group
	now    time.Duration
}

// New returns a Sim with the given number of CPUs and a group for each setting. The groups have no work yet. The bandwidths of the settings
// must pass Check, and their phases must not be negative.
func New(k Kernel, cpus int, settings ...Setting) *Sim {
	s := &Sim{Kernel: k, cpus: float64(cpus)}
	for _, setting := range settings {
		s.groups = append(s.groups, newGroup(setting, k, cpus))
	}
	return s
}

// Now returns the virtual time since the start of the Sim.
func (s *Sim) Now() time.Duration { return s.now }

// Add adds work, in CPU time, to the end of a group's backlog.
func (s *Sim) Add(group int, work time.Duration) {
	g := s.groups[group]
	g.backlog += work
	if g.onDone != nil {
		g.addedWork += work
		g.workEnds = append(g.workEnds, g.addedWork)
	}
	g.placeThreads(s.now)
}

// Follow makes the Sim call done once for each later Add of a group, with the time at which the added work is done. A
// group does its work in the order of the Adds. The group must have no backlog at the call, and the caller must not call
// Drop for the group afterwards.
func (s *Sim) Follow(group int, done func(at time.Duration)) {
	g := s.groups[group]
	g.onDone, g.addedWork = done, g.stat.Usage
}

// SetThreads sets the number of CPUs on which a group's work can run at once; the default is 1.
func (s *Sim) SetThreads(group, threads int) {
	s.groups[group].threads = max(threads, 1)
	s.groups[group].placeThreads(s.now)
}

// Drop removes and returns a group's backlog. It is for programs that stop at a time instead of after an amount of work.
// Throttled threads of the group remain until the next period edge, and Busy reports them.
func (s *Sim) Drop(group int) (work time.Duration) {
	g := s.groups[group]
	work, g.backlog = g.backlog, 0
	g.placeThreads(s.now)
	return work
}

// Backlog returns the remaining CPU time of a group's work.
func (s *Sim) Backlog(group int) time.Duration { return s.groups[group].backlog }

// DoneAt returns the last time at which a group completed its backlog; 0 means never.
func (s *Sim) DoneAt(group int) time.Duration { return s.groups[group].doneAt }

// Busy reports whether a group has work or throttled threads.
func (s *Sim) Busy(group int) bool {
	g := s.groups[group]
	return g.backlog > 0 || g.pool != nil && g.throttledCPUs > 0
}

// Stat returns the counters of a group.
func (s *Sim) Stat(group int) Stat { return *s.groups[group].stat }

// Run advances the Sim until a time.
func (s *Sim) Run(until time.Duration) {
	for s.now < until {
		s.step(until)
	}
}

// RunWhileBusy advances the Sim while the group is busy, at most until a time.
func (s *Sim) RunWhileBusy(group int, until time.Duration) {
	for s.Busy(group) && s.now < until {
		s.step(until)
	}
}

// step advances the Sim to the next event: a tick, a period edge, the end of a backlog, or until.
func (s *Sim) step(until time.Duration) {
	s.setRates()
	next := until
	nextTick := time.Duration(math.MaxInt64)
	for _, g := range s.groups {
		if g.rate > 0 {
			nextTick = s.now - s.now%s.Tick + s.Tick
			if done := g.timeToFinish(); done < next-s.now {
				next = s.now + done
			}
		}
		if g.pool != nil && g.isTimerRunning {
			next = min(next, g.edge)
		}
	}
	next = min(next, nextTick)
	for _, g := range s.groups {
		s.advance(g, next, next == nextTick)
	}
	s.now = next
}

// advance advances a group to the next event. isTick reports whether the event is a tick.
func (s *Sim) advance(g *group, next time.Duration, isTick bool) {
	worked := g.backlog > 0
	g.run(s.now, next)
	changed := false
	if worked && g.backlog == 0 {
		g.doneAt, changed = next, true
	}
	if g.pool != nil && g.isTimerRunning && g.edge == next {
		g.refill()
		changed = true
	}
	if isTick {
		g.tick(next)
		changed = true
	}
	if changed {
		g.placeThreads(next)
	}
}

// setRates sets the rates of the groups: it divides the CPUs by weight, but gives no group more than the number of CPUs
// on which it runs.
func (s *Sim) setRates() {
	remaining, demand, weights := s.cpus, 0.0, 0.0
	for _, g := range s.groups {
		g.rate = 0
		demand += float64(g.running)
		if g.running > 0 {
			weights += g.weight
		}
	}
	if demand <= remaining {
		for _, g := range s.groups {
			g.rate = float64(g.running)
		}
		return
	}
	s.setScarceRates(remaining, weights)
}

// setScarceRates divides remaining CPUs among the running groups, which together could use more CPUs. weights is the sum
// of the weights of these groups.
func (s *Sim) setScarceRates(remaining, weights float64) {
	for weights > 0 {
		share := remaining / weights
		isLimited := false
		for _, g := range s.groups { // a group whose share exceeds the CPUs on which it runs gets exactly these CPUs
			if g.rate == 0 && g.running > 0 && share*g.weight >= float64(g.running) {
				g.rate = float64(g.running)
				remaining -= g.rate
				weights -= g.weight
				isLimited = true
			}
		}
		if isLimited {
			continue
		}
		for _, g := range s.groups {
			if g.rate == 0 && g.running > 0 {
				g.rate = share * g.weight
			}
		}
		return
	}
}

// Set changes the bandwidth of a group that has a quota, as a write to the group's kernel files does. Set adds a quota to the pool at once,
// and each CPU loses its runtime or its debt (negative runtime). The period and the phase do not change: b must have the group's period.
func (s *Sim) Set(group int, b Bandwidth) {
	g := s.groups[group]
	g.pool.setBandwidth(b)
	g.pool.startTimer(s.now)
	g.placeThreads(s.now)
}

// setBandwidth does the work of the kernel's tg_set_cfs_bandwidth.
func (p *pool) setBandwidth(b Bandwidth) {
	p.Bandwidth = b
	p.replenish()
	for i := range p.cpus {
		c := &p.cpus[i]
		c.remaining = 1
		if c.isThrottled {
			c.isThrottled = false
			p.throttledCPUs--
		}
	}
}
