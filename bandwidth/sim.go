package bandwidth

import (
	"math"
	"time"
)

// A Sim is groups on the same CPUs. A group is named by its place in New's list.
type Sim struct {
	Kernel
	cpus   float64
	groups []*group
	now    time.Duration
}

// New returns a model of groups on some CPUs, without any demand. The settings'
// bandwidths are such as Check takes; phases are 0 or more.
func New(k Kernel, cpus int, settings ...Setting) *Sim {
	s := &Sim{Kernel: k, cpus: float64(cpus)}
	for _, setting := range settings {
		s.groups = append(s.groups, newGroup(setting, k, cpus))
	}
	return s
}

// Now is how long the model has run.
func (s *Sim) Now() time.Duration { return s.now }

// Add gives a group CPU time to use, behind what it has still to do.
func (s *Sim) Add(group int, work time.Duration) {
	g := s.groups[group]
	g.backlog += work
	if g.follow != nil {
		g.asked += work
		g.marks = append(g.marks, g.asked)
	}
	g.settle(s.now)
}

// Follow calls done for each later Add of a group, in their order, with the time at which its
// work is done, first come first served. The group must have no backlog, and may not Drop any.
func (s *Sim) Follow(group int, done func(at time.Duration)) {
	g := s.groups[group]
	g.follow, g.asked = done, g.stat.Usage
}

// SetThreads says on how many CPUs a group's work can run at once; 1 at the start.
func (s *Sim) SetThreads(group, threads int) {
	s.groups[group].threads = max(threads, 1)
	s.groups[group].settle(s.now)
}

// Drop takes from a group what it has still to do, as a program does that stops at a
// time instead of at an amount of work. It returns what was taken. Threads that are
// throttled learn of it at the next period's edge: Busy.
func (s *Sim) Drop(group int) (work time.Duration) {
	g := s.groups[group]
	work, g.backlog = g.backlog, 0
	g.settle(s.now)
	return work
}

// Backlog is the CPU time that a group has been given and has not yet used.
func (s *Sim) Backlog(group int) time.Duration { return s.groups[group].backlog }

// DoneAt is when a group's backlog last came to its end; 0: never.
func (s *Sim) DoneAt(group int) time.Duration { return s.groups[group].doneAt }

// Busy reports whether a group has work or threads that are throttled.
func (s *Sim) Busy(group int) bool {
	g := s.groups[group]
	return g.backlog > 0 || g.pool != nil && g.waiting > 0
}

// Stat is what a group has used.
func (s *Sim) Stat(group int) Stat { return *s.groups[group].stat }

// Run lets the model run until a time.
func (s *Sim) Run(until time.Duration) {
	for s.now < until {
		s.step(until)
	}
}

// RunWhileBusy lets the model run while the group is busy, at the longest until a time.
func (s *Sim) RunWhileBusy(group int, until time.Duration) {
	for s.Busy(group) && s.now < until {
		s.step(until)
	}
}

// step runs to the next moment at which something changes: a tick, a period's edge,
// the end of a backlog.
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
		if g.pool != nil && g.active {
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
	if g.pool != nil && g.active && g.edge == next {
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

// share divides the CPUs among the groups: by weight, to none more than the CPUs on which it runs.
func (s *Sim) share() {
	left, want, weights := s.cpus, 0.0, 0.0
	for _, g := range s.groups {
		g.rate = 0
		want += float64(g.lanes)
		if g.lanes > 0 {
			weights += g.weight
		}
	}
	if want <= left {
		for _, g := range s.groups {
			g.rate = float64(g.lanes)
		}
		return
	}
	for weights > 0 {
		part := left / weights
		full := false
		for _, g := range s.groups { // those whose part is more than they can use
			if g.rate == 0 && g.lanes > 0 && part*g.weight >= float64(g.lanes) {
				g.rate = float64(g.lanes)
				left -= g.rate
				weights -= g.weight
				full = true
			}
		}
		if full {
			continue
		}
		for _, g := range s.groups {
			if g.rate == 0 && g.lanes > 0 {
				g.rate = part * g.weight
			}
		}
		return
	}
}
