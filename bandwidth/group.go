package bandwidth

import (
	"math"
	"time"
)

// A Setting is the initial configuration of a group.
type Setting struct {
	Bandwidth
	Weight int           // relative to other groups on the same CPUs; 0 means 1
	Rested bool          // the group starts with a full burst; else with an empty one
	Phase  time.Duration // of the period's edges; the kernel draws it at random when it creates the group
}

// A group is a control group: its threads, their work, and the pool of its runtime.
type group struct {
	*pool   // nil: no limit
	stat    *Stat
	cpus    []cpu
	weight  float64
	threads int           // maximum number of running threads
	backlog time.Duration // remaining CPU time of the threads' work
	doneAt  time.Duration // when the backlog last ended
	topCPU  int           // CPUs from this index on have no threads of the group
	running int           // CPUs on which the group runs now
	rate    float64       // CPUs' worth of time that the group gets now

	onDone func(at time.Duration) // nil: the caller does not follow the group
	added  time.Duration          // total CPU time added so far
	marks  []time.Duration        // usage at which each added work is done
	halt   *halt                  // nil: the caller does not follow the halts
}

func newGroup(s Setting, k Kernel, cpus int) *group {
	g := &group{stat: &Stat{}, cpus: make([]cpu, cpus), weight: float64(max(s.Weight, 1)), threads: 1}
	if s.Quota != 0 {
		g.pool = newPool(s, k, g.cpus, g.stat)
	}
	return g
}

// settle puts the threads on the lowest CPUs and removes them from other CPUs. A throttled CPU retains its threads
// until it can run again.
func (g *group) settle(now time.Duration) {
	needed := 0
	if g.backlog > 0 {
		needed = min(g.threads, len(g.cpus))
	}
	if g.pool == nil {
		g.running = needed
		return
	}
	g.running = 0
	g.topCPU = max(g.topCPU, needed)
	for i := range g.cpus[:g.topCPU] {
		c := &g.cpus[i]
		switch {
		case i < needed && !c.isRunning:
			g.enter(c, now)
		case i >= needed && c.isRunning && !c.isThrottled:
			g.leave(c)
		}
		if c.isRunning && !c.isThrottled {
			g.running++
		}
	}
	for g.topCPU > needed && !g.cpus[g.topCPU-1].isRunning {
		g.topCPU--
	}
	if g.halt != nil {
		g.halt.update(g.running == 0 && g.pool.empty(), now)
	}
}

// finish returns the time until the backlog ends at the present rate.
func (g *group) finish() time.Duration {
	if g.rate == 0 {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(float64(g.backlog) / g.rate))
}

// run advances the group from one moment to another. Nothing may change in between.
func (g *group) run(from, to time.Duration) {
	if g.pool != nil {
		g.stat.ThrottledTime += (to - from) * time.Duration(g.throttledCPUs)
	}
	if g.rate == 0 {
		return
	}
	const rounding = 1e-6 // in nanoseconds; without it, a backlog that ends now would lack its last nanosecond
	used := min(time.Duration(g.rate*float64(to-from)+rounding), g.backlog)
	g.backlog -= used
	for len(g.marks) > 0 && g.marks[0] <= g.stat.Usage+used {
		share := float64(g.marks[0]-g.stat.Usage) / g.rate
		g.onDone(min(from+time.Duration(share), to))
		g.marks = g.marks[1:]
	}
	g.stat.Usage += used
	if g.pool == nil {
		return
	}
	perCPU := used / time.Duration(g.running)
	rest := used - perCPU*time.Duration(g.running)
	for i := range g.cpus[:g.topCPU] {
		if c := &g.cpus[i]; c.isRunning && !c.isThrottled {
			c.remaining -= perCPU + rest
			rest = 0
		}
	}
}

// tick charges the group's busy CPUs. A CPU that has used its runtime draws again.
func (g *group) tick(now time.Duration) {
	if g.pool == nil {
		return
	}
	for i := range g.cpus[:g.topCPU] {
		if c := &g.cpus[i]; c.isRunning && !c.isThrottled && c.remaining <= 0 {
			g.draw(c, now)
		}
	}
}
