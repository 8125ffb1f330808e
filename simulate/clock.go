package simulate

import (
	"math/bits"
	"time"
)

// A clock collects the durations of decisions.
type clock struct {
	all, sensitive spent
	ends           spent                 // those that were timed
	endCount       int64                 // all
	counts         [64 << stepBits]int64 // of all decisions, by step
}

// endsTimed is the number of ends per timed end: reading the clock takes a tenth as long as an end.
const endsTimed = 7

// spent is a time in all.
type spent struct {
	n    int64
	time time.Duration
}

func (s *spent) add(d time.Duration) {
	s.n++
	s.time += d
}

// meanUs returns the mean in microseconds.
func (s *spent) meanUs() float64 { return ratio(float64(s.time)/1e3, float64(s.n)) }

// Times are counted in steps: 32 to each power of two, which is 3 %.
const stepBits = 5

func stepOf(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 1<<stepBits {
		return int(n)
	}
	power := bits.Len64(n) - 1
	return (power-stepBits+1)<<stepBits | int(n>>(power-stepBits)&(1<<stepBits-1))
}

// stepMiddle is the time in the middle of a step, nanoseconds.
func stepMiddle(step int) float64 {
	if step < 1<<stepBits {
		return float64(step)
	}
	power := step>>stepBits + stepBits - 1
	width := float64(uint64(1) << (power - stepBits))
	return float64(uint64(1)<<power) + (float64(step&(1<<stepBits-1))+0.5)*width
}

// decision counts a decision.
func (c *clock) decision(d time.Duration, sensitive bool) {
	c.all.add(d)
	c.counts[stepOf(d)]++
	if sensitive {
		c.sensitive.add(d)
	}
}

// timesEnd counts an end, and reports whether to time it.
func (c *clock) timesEnd() bool {
	c.endCount++
	return c.endCount%endsTimed == 1
}

// share returns the part of a time that decisions and ends took, of which not all were timed.
func (c *clock) share(took time.Duration) float64 {
	ends := ratio(float64(c.ends.time), float64(c.ends.n)) * float64(c.endCount)
	return min(1, ratio(float64(c.all.time)+ends, float64(took)))
}

// quantileUs returns the time that a share of the decisions did not exceed.
func (c *clock) quantileUs(share float64) float64 {
	rank := int64(share * float64(c.all.n))
	for step, n := range c.counts {
		if rank -= n; rank < 0 {
			return stepMiddle(step) / 1e3
		}
	}
	return 0
}

// timing returns the figures.
func (c *clock) timing(took time.Duration, events int64) Timing {
	return Timing{
		DecisionMeanUs:          c.all.meanUs(),
		DecisionP50Us:           c.quantileUs(0.5),
		DecisionP99Us:           c.quantileUs(0.99),
		EventsPerSecond:         ratio(float64(events), took.Seconds()),
		Seconds:                 took.Seconds(),
		DecisionSensitiveMeanUs: c.sensitive.meanUs(),
		AllocatorShare:          c.share(took),
	}
}
