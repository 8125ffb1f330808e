package bandwidth

import (
	"math"
	"time"
)

// A Sim simulates groups on the same CPUs. The index of a group is its position in New's settings. A Sim is not safe
// for concurrent use.
type Sim struct {
	Kernel
	cpus   float64
	groups []*group
	now    time.Duration
}

// New returns a model of groups on a number of CPUs, without any demand. The settings' bandwidths must pass Check,
// and phases must not be negative.
func New(k Kernel, cpus int, settings ...Setting) *Sim {
	s := &Sim{Kernel: k, cpus: float64(cpus)}
	for _, setting := range settings {
		s.groups = append(s.groups, newGroup(setting, k, cpus))
	}
	return s
}

// Now returns the virtual time since the model's start.
func (s *Sim) Now() time.Duration { return s.now }

// Add adds CPU time to the end of a group's backlog.
func (s *Sim) Add(group int, work time.Duration) {
	g := s.groups[group]
	g.backlog += work
	if g.onDone != nil {
		g.added += work
		g.marks = append(g.marks, g.added)
	}
	g.settle(s.now)
}

// Follow calls done for each later Add of a group, in order, with the time at which its work is done. A group does
// its work first come, first served. The group must have no backlog, and the caller must not use Drop for it.
func (s *Sim) Follow(group int, done func(at time.Duration)) {
	g := s.groups[group]
	g.onDone, g.added = done, g.stat.Usage
}

// SetThreads sets the number of CPUs on which a group's work can run at once; the default is 1.
func (s *Sim) SetThreads(group, threads int) {
	s.groups[group].threads = max(threads, 1)
	s.groups[group].settle(s.now)
}

// Drop removes and returns a group's backlog, as for a program that stops at a time instead of after an amount of
// work. Throttled threads notice it at the next period edge; see Busy.
func (s *Sim) Drop(group int) (work time.Duration) {
	g := s.groups[group]
	work, g.backlog = g.backlog, 0
	g.settle(s.now)
	return work
}

// Backlog returns the remaining CPU time of a group's work.
func (s *Sim) Backlog(group int) time.Duration { return s.groups[group].backlog }

// DoneAt returns the time at which a group's backlog last ended; 0 means never.
func (s *Sim) DoneAt(group int) time.Duration { return s.groups[group].doneAt }

// Busy reports whether a group has work or throttled threads.
func (s *Sim) Busy(group int) bool {
	g := s.groups[group]
	return g.backlog > 0 || g.pool != nil && g.throttledCPUs > 0
}

// Stat returns the counters of a group.
func (s *Sim) Stat(group int) Stat { return *s.groups[group].stat }

// Run advances the model until a time.
func (s *Sim) Run(until time.Duration) {
	for s.now < until {
		s.step(until)
	}
}

// RunWhileBusy advances the model while the group is busy, at most until a time.
func (s *Sim) RunWhileBusy(group int, until time.Duration) {
	for s.Busy(group) && s.now < until {
		s.step(until)
	}
}

// step advances to the next event: a tick, a period edge, or the end of a backlog.
func (s *Sim) step(until time.Duration) {
	s.share()
	next := until
	nextTick := time.Duration(math.MaxInt64)
	for _, g := range s.groups {
		if g.rate > 0 {
			nextTick = s.now - s.now%s.Tick + s.Tick
			if done := g.finish(); done < next-s.now {
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

// advance brings a group to the next moment.
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
		g.settle(next)
	}
}

// share divides the CPUs among the groups by weight. No group gets more than the CPUs on which it runs.
func (s *Sim) share() {
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
	for weights > 0 {
		share := remaining / weights
		isLimited := false
		for _, g := range s.groups { // groups whose share exceeds their usable CPUs
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
