package bandwidth

import (
	"math"
	"time"
)

// A Setting is what a group starts with.
type Setting struct {
	Bandwidth
	Weight int           // against other groups on the same CPUs; 0 is 1
	Rested bool          // it has saved up its burst; else it is new, and has saved nothing
	Phase  time.Duration // of the period's edges, which the kernel draws at random when it makes the group
}

// A group is a control group: threads, their work, and the pool they draw from.
type group struct {
	*pool   // nil: no limit
	stat    *Stat
	cpus    []cpu
	weight  float64
	threads int           // that can run at once
	backlog time.Duration // CPU time that they still want
	doneAt  time.Duration // when the backlog last ended
	top     int           // CPUs from here on have nothing of the group
	lanes   int           // CPUs on which it runs now
	rate    float64       // CPUs' worth of time that it gets now

	follow func(at time.Duration) // nil: nobody
	asked  time.Duration          // CPU time, all that was added so far
	marks  []time.Duration        // use at which what was added is done
	halt   *halt                  // nil: nobody follows
}

func newGroup(s Setting, k Kernel, cpus int) *group {
	g := &group{stat: &Stat{}, cpus: make([]cpu, cpus), weight: float64(max(s.Weight, 1)), threads: 1}
	if s.Quota != 0 {
		g.pool = newPool(s, k, g.cpus, g.stat)
	}
	return g
}

// settle puts the threads on CPUs, the lowest first, and takes them from those that they have left.
// A throttled CPU keeps its threads until it may run again.
func (g *group) settle(now time.Duration) {
	want := 0
	if g.backlog > 0 {
		want = min(g.threads, len(g.cpus))
	}
	if g.pool == nil {
		g.lanes = want
		return
	}
	g.lanes = 0
	g.top = max(g.top, want)
	for i := range g.cpus[:g.top] {
		c := &g.cpus[i]
		switch {
		case i < want && !c.running:
			g.enter(c, now)
		case i >= want && c.running && !c.throttled:
			g.leave(c)
		}
		if c.running && !c.throttled {
			g.lanes++
		}
	}
	for g.top > want && !g.cpus[g.top-1].running {
		g.top--
	}
	if g.halt != nil {
		g.halt.note(g.lanes == 0 && g.pool.empty(), now)
	}
}

// finish is how long the backlog lasts at the present rate.
func (g *group) finish() time.Duration {
	if g.rate == 0 {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(float64(g.backlog) / g.rate))
}

// run lets the group run from one moment to another, between which nothing changes.
func (g *group) run(from, to time.Duration) {
	if g.pool != nil {
		g.stat.ThrottledTime += (to - from) * time.Duration(g.waiting)
	}
	if g.rate == 0 {
		return
	}
	const rounding = 1e-6 // of a nanosecond: else a backlog that ends now would miss its last one
	used := min(time.Duration(g.rate*float64(to-from)+rounding), g.backlog)
	g.backlog -= used
	for len(g.marks) > 0 && g.marks[0] <= g.stat.Usage+used {
		part := float64(g.marks[0]-g.stat.Usage) / g.rate
		g.follow(min(from+time.Duration(part), to))
		g.marks = g.marks[1:]
	}
	g.stat.Usage += used
	if g.pool == nil {
		return
	}
	each := used / time.Duration(g.lanes)
	rest := used - each*time.Duration(g.lanes)
	for i := range g.cpus[:g.top] {
		if c := &g.cpus[i]; c.running && !c.throttled {
			c.remaining -= each + rest
			rest = 0
		}
	}
}

// tick charges the group's busy CPUs: those that have used what they drew draw again.
func (g *group) tick(now time.Duration) {
	if g.pool == nil {
		return
	}
	for i := range g.cpus[:g.top] {
		if c := &g.cpus[i]; c.running && !c.throttled && c.remaining <= 0 {
			g.draw(c, now)
		}
	}
}
