package bandwidth

import (
	"math"
	"time"
)

// A Setting is the initial configuration of a group.
type Setting struct {
	Bandwidth
	Weight       int           // relative share of the CPUs if the groups need more CPUs than exist; 0 means 1
	HasFullBurst bool          // the group starts with Burst accumulated; otherwise with nothing accumulated
	Phase        time.Duration // offset of the period edges from multiples of Period; the kernel draws it at random
}

// A group is a cgroup: its threads, the work of these threads, and its pool of runtime.
type group struct {
	*pool   // nil: no limit
	stat    *Stat
	cpus    []cpu
	weight  float64
	threads int           // maximum number of running threads
	backlog time.Duration // remaining CPU time of the threads' work
	doneAt  time.Duration // when the backlog last ended
	topCPU  int           // CPUs from this index on have no threads of the group
	running int           // number of CPUs on which the group runs now
	rate    float64       // number of CPUs whose time the group gets now

	onDone    func(at time.Duration) // callback of Sim.Follow; nil: none
	addedWork time.Duration          // the group's usage at which all work added so far is done, if onDone is set
	workEnds  []time.Duration        // for each added work that is not done: the group's usage at which the work is done
	halt      *halt                  // nil unless the caller has called Sim.FollowHalts
}

func newGroup(s Setting, k Kernel, cpus int) *group {
	g := &group{stat: &Stat{}, cpus: make([]cpu, cpus), weight: float64(max(s.Weight, 1)), threads: 1}
	if s.Quota != 0 {
		g.pool = newPool(s, k, g.cpus, g.stat)
	}
	return g
}

// placeThreads puts the group's threads on the CPUs with the lowest indexes, and removes them from the other CPUs. A
// throttled CPU retains its threads until it is no longer throttled.
func (g *group) placeThreads(now time.Duration) {
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
			g.addThreads(c, now)
		case i >= needed && c.isRunning && !c.isThrottled:
			g.removeThreads(c)
		}
		if c.isRunning && !c.isThrottled {
			g.running++
		}
	}
	for g.topCPU > needed && !g.cpus[g.topCPU-1].isRunning {
		g.topCPU--
	}
	if g.halt != nil {
		g.halt.update(g.running == 0 && g.pool.isEmpty(), now)
	}
}

// timeToFinish returns the time until the backlog ends at the present rate.
func (g *group) timeToFinish() time.Duration {
	if g.rate == 0 {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(float64(g.backlog) / g.rate))
}

// run advances the group from one moment to another. The rate and the set of running CPUs must be constant in between.
func (g *group) run(from, to time.Duration) {
	if g.pool != nil {
		g.stat.ThrottledTime += (to - from) * time.Duration(g.throttledCPUs)
	}
	if g.rate == 0 {
		return
	}
	const rounding = 1e-6 // in nanoseconds; otherwise a backlog that should end now could keep its last nanosecond
	used := min(time.Duration(g.rate*float64(to-from)+rounding), g.backlog)
	g.backlog -= used
	for len(g.workEnds) > 0 && g.workEnds[0] <= g.stat.Usage+used {
		share := float64(g.workEnds[0]-g.stat.Usage) / g.rate
		g.onDone(min(from+time.Duration(share), to))
		g.workEnds = g.workEnds[1:]
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

// tick does the work of a kernel tick: a busy CPU that has used up its runtime draws another slice.
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
