package trace

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// A population is the state of a generated trace: the running containers, and the planned events.
type population struct {
	eventQueue
	slots   slots
	rng     *rand.Rand
	cell    *[2][4]cellShapes
	turns   [2][4][33]evenSequence // for draw, by population, class and bits.Len of the number of tasks; index 0: for method size
	times   [4][33]evenSequence    // for the durations of jobs, by class and bits.Len of the number of tasks
	live    []member               // by slot
	waiting pool[member]           // containers that will be resubmitted
	batches pool[batch]
	horizon Micros // end of the trace; later events are discarded
}

// A member is a container of a population.
type member struct {
	job   uint64
	task  uint32
	loops int32 // remaining resubmissions of a broken container
	long  bool
	lasts bool // the container is replaced when it ends
	shape
}

func newCrowd(seed uint64, horizon Micros) (*population, error) {
	cell, err := readCell()
	c := &population{rng: rand.New(rand.NewPCG(seed, 2011)), cell: cell, horizon: horizon}
	for population := range c.turns {
		for class := range c.turns[population] {
			for size := range c.turns[population][class] {
				c.turns[population][class][size] = evenSequence(c.rng.Float64())
				c.times[class][size] = evenSequence(c.rng.Float64())
			}
		}
	}
	return c, err
}

// plan adds a due event, unless its time is after the end of the trace.
func (c *population) plan(time Micros, kind int, ref uint32) {
	if time < c.horizon {
		c.push(time, kind, ref)
	}
}

// seconds converts a number of seconds to a duration of at least 1 µs.
func seconds(s float64) Micros { return Micros(math.Min(s, 1e9)*float64(Second)) + 1 }

// logNormal draws a duration from a log-normal distribution with a median in seconds.
func (c *population) logNormal(median, sigma float64) Micros {
	return seconds(median * math.Exp(sigma*c.rng.NormFloat64()))
}

// exponential draws a duration from an exponential distribution with a mean in seconds.
func (c *population) exponential(mean float64) Micros { return seconds(mean * c.rng.ExpFloat64()) }

// An evenSequence is a low-discrepancy sequence of numbers from 0 to 1, represented by its last number. Its numbers are more evenly
// distributed than random numbers.
type evenSequence float64

func (t *evenSequence) next() float64 {
	const goldenRatio = 0.6180339887498949
	*t = evenSequence(math.Mod(float64(*t)+goldenRatio, 1))
	return float64(*t)
}

// normal returns the next number, converted to a standard normal distribution.
func (t *evenSequence) normal() float64 { return math.Sqrt2 * math.Erfinv(2*t.next()-1) }

// draw draws the request of the containers of a job. A few large jobs have most of the containers. Each size of jobs
// therefore has a low-discrepancy sequence of its own, so that the quantiles of the requests are right even in a short trace.
func (c *population) draw(population int, class uint8, tasks uint32) member {
	k := &cellClasses[class]
	turn := &c.turns[population][class][bits.Len32(tasks)]
	asks := c.cell[population][class][int(turn.next()*100)]
	s := shape{cpu: asks.cpu, memory: asks.memory, class: class, priority: k.priority[population]}
	if c.rng.Float64() < k.spread[population] {
		s.flags = DifferentMachines
	}
	return member{shape: s}
}

// start sets e to the Submit of a container, and plans the container's end.
func (c *population) start(e *Event, now Micros, m member, runs Micros) {
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

// end sets e to the End of a container, and plans the container's resubmission if there is any.
func (c *population) end(e *Event, now Micros, slot uint32) {
	m := c.live[slot]
	c.slots.give(slot)
	*e = Event{Time: now, Kind: End, Job: m.job, Task: m.task, Container: slot}
	switch {
	case m.loops > 0: // the user stops a broken container and tries again
		m.loops--
		e.Reason = Killed
		c.planResubmit(now+seconds(0.5+c.rng.Float64()), m)
	case m.long:
		e.Reason = c.reason(&cellClasses[m.class].longEnds)
	default:
		e.Reason = c.reason(&shortEnds)
	}
	if e.Reason == Evicted || m.lasts {
		c.planResubmit(now+c.logNormal(2, 1), m)
	}
}

// reason draws the reason for an end.
func (c *population) reason(shares *[Lost]float64) Reason {
	u := c.rng.Float64()
	for r, share := range shares {
		if u -= share; u < 0 {
			return Reason(r)
		}
	}
	return Killed
}

// planResubmit plans the resubmission of a container.
func (c *population) planResubmit(at Micros, m member) { c.plan(at, dueAgain, c.waiting.put(m)) }

// resubmit sets e to the Submit of a waiting container.
func (c *population) resubmit(e *Event, now Micros, i uint32) {
	m := c.waiting.all[i]
	c.waiting.free(i)
	m.flags &^= AtStart
	c.start(e, now, m, c.drawDuration(&m))
}

// drawDuration draws the duration of a container.
func (c *population) drawDuration(m *member) Micros {
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
	runs  Micros // synthetic: median duration of short tasks; semi-real: duration of the job
}

// A pool stores values by number. Numbers of freed values are reused.
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

// nextTask returns the next task of a job, and plans the task after it within the following millisecond.
func (c *population) nextTask(now Micros, i uint32) batch {
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
