package trace

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// A crowd is the population of a generated trace: the running containers, and the due events.
type crowd struct {
	agenda
	slots   slots
	rng     *rand.Rand
	cell    *[2][4]cellShapes
	turns   [2][4][33]turn // of draw: by population, class and size of the job; 0 is for the size itself
	times   [4][33]turn    // of the durations of jobs, by class and size
	live    []member       // by slot
	waiting pool[member]   // to be submitted again
	batches pool[batch]
	horizon Micros // later events do not happen
}

// A member is a container.
type member struct {
	job   uint64
	task  uint32
	loops int32 // times that it will be submitted again; it is broken
	long  bool
	lasts bool // another container replaces it at its end
	shape
}

func newCrowd(seed uint64, horizon Micros) (*crowd, error) {
	cell, err := readCell()
	c := &crowd{rng: rand.New(rand.NewPCG(seed, 2011)), cell: cell, horizon: horizon}
	for population := range c.turns {
		for class := range c.turns[population] {
			for size := range c.turns[population][class] {
				c.turns[population][class][size] = turn(c.rng.Float64())
				c.times[class][size] = turn(c.rng.Float64())
			}
		}
	}
	return c, err
}

// plan puts something on the agenda, unless it comes too late.
func (c *crowd) plan(time Micros, kind int, ref uint32) {
	if time < c.horizon {
		c.push(time, kind, ref)
	}
}

// seconds turns a number of seconds into a span of 1 µs at least.
func seconds(s float64) Micros { return Micros(math.Min(s, 1e9)*float64(Second)) + 1 }

// logNormal draws a span with a median in seconds.
func (c *crowd) logNormal(median, sigma float64) Micros {
	return seconds(median * math.Exp(sigma*c.rng.NormFloat64()))
}

// exponential draws a span with a mean in seconds.
func (c *crowd) exponential(mean float64) Micros { return seconds(mean * c.rng.ExpFloat64()) }

// A turn is the last of numbers from 0 to 1 that are spread evenly.
type turn float64

func (t *turn) next() float64 {
	const goldenRatio = 0.6180339887498949
	*t = turn(math.Mod(float64(*t)+goldenRatio, 1))
	return float64(*t)
}

// normal is next, for a standard normal distribution.
func (t *turn) normal() float64 { return math.Sqrt2 * math.Erfinv(2*t.next()-1) }

// draw draws the request of a job's containers of a class. Draws are evenly spread, separately for large jobs: a few of them have most of
// the containers, and the quantiles must be right in a short trace as well.
func (c *crowd) draw(population int, class uint8, tasks uint32) member {
	k := &cellClasses[class]
	turn := &c.turns[population][class][bits.Len32(tasks)]
	asks := c.cell[population][class][int(turn.next()*100)]
	s := shape{cpu: asks.cpu, memory: asks.memory, class: class, priority: k.priority[population]}
	if c.rng.Float64() < k.spread[population] {
		s.flags = DifferentMachines
	}
	return member{shape: s}
}

// begin makes e the Submit of a container that runs for a while.
func (c *crowd) begin(e *Event, now Micros, m member, runs Micros) {
	slot := c.slots.take()
	if int(slot) == len(c.live) {
		c.live = append(c.live, m)
	} else {
		c.live[slot] = m
	}
	c.plan(now+runs, dueEnd, slot)
	*e = Event{Time: now, Kind: Submit, Job: m.job, Task: m.task, Container: slot,
		CPU: m.cpu, Memory: m.memory, Class: m.class, Priority: m.priority, Flags: m.flags}
}

// end makes e the End of a container.
func (c *crowd) end(e *Event, now Micros, slot uint32) {
	m := c.live[slot]
	c.slots.give(slot)
	*e = Event{Time: now, Kind: End, Job: m.job, Task: m.task, Container: slot}
	switch {
	case m.loops > 0: // its user stops it and tries again
		m.loops--
		e.Reason = Killed
		c.again(now+seconds(0.5+c.rng.Float64()), m)
	case m.long:
		e.Reason = c.reason(&cellClasses[m.class].longEnds)
	default:
		e.Reason = c.reason(&shortEnds)
	}
	if e.Reason == Evicted || m.lasts {
		c.again(now+c.logNormal(2, 1), m)
	}
}

// reason draws the reason of an end.
func (c *crowd) reason(shares *[Lost]float64) Reason {
	u := c.rng.Float64()
	for r, share := range shares {
		if u -= share; u < 0 {
			return Reason(r)
		}
	}
	return Killed
}

// again lets a container be submitted once more.
func (c *crowd) again(at Micros, m member) { c.plan(at, dueAgain, c.waiting.put(m)) }

// resubmit makes e the Submit of a container that waits.
func (c *crowd) resubmit(e *Event, now Micros, i uint32) {
	m := c.waiting.all[i]
	c.waiting.free(i)
	m.flags &^= AtStart
	c.begin(e, now, m, c.life(&m))
}

// life draws the duration of a container.
func (c *crowd) life(m *member) Micros {
	k := &cellClasses[m.class]
	switch {
	case m.loops > 0:
		return c.logNormal(loopMedian, loopSigma)
	case m.long:
		return c.exponential(k.longLife)
	default:
		return c.logNormal(k.median, k.sigma)
	}
}

// A batch is a job whose tasks arrive one by one.
type batch struct {
	member
	tasks uint32
	runs  Micros // median duration of short tasks
}

// A pool keeps values by number; numbers are used again.
type pool[T any] struct {
	all  []T
	idle []uint32
}

func (p *pool[T]) put(v T) uint32 {
	if n := len(p.idle); n > 0 {
		i := p.idle[n-1]
		p.idle, p.all[i] = p.idle[:n-1], v
		return i
	}
	p.all = append(p.all, v)
	return uint32(len(p.all) - 1)
}

func (p *pool[T]) free(i uint32) { p.idle = append(p.idle, i) }

// nextTask takes the next task of a job; the following task arrives within milliseconds.
func (c *crowd) nextTask(now Micros, i uint32) batch {
	b := &c.batches.all[i]
	this := *b
	b.task++
	if b.task < b.tasks {
		c.plan(now+Micros(200+c.rng.IntN(600)), dueTask, i)
	} else {
		c.batches.free(i)
	}
	return this
}
