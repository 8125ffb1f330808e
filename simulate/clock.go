package simulate

import (
	"math/bits"
	"time"
)

// A clock collects the durations of all decisions, and of a sample of the releases of ended containers ("ends").
type clock struct {
	all, sensitive durationSum
	sampledEnds    durationSum           // durations of the ends in the sample
	endCount       int64                 // number of all ends
	counts         [64 << stepBits]int64 // histogram of all decisions, by step
}

// endsPerSample selects the sample: every endsPerSample-th end is timed. Not every end is timed, because reading the system clock takes a
// tenth of the duration of an end.
const endsPerSample = 7

// A durationSum is a sum of durations and their number.
type durationSum struct {
	n    int64
	time time.Duration
}

func (s *durationSum) add(d time.Duration) {
	s.n++
	s.time += d
}

// mean returns the mean duration in seconds.
func (s *durationSum) mean() float64 { return ratio(s.time.Seconds(), float64(s.n)) }

// A step is a bucket of the histogram of durations. From each power of two to the next, there are 1<<stepBits steps, so the width of a step
// is at most 1/32 of the durations in the step. Below 32 ns, a step is 1 ns wide.
const stepBits = 5

func stepOf(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 1<<stepBits {
		return int(n)
	}
	power := bits.Len64(n) - 1
	return (power-stepBits+1)<<stepBits | int(n>>(power-stepBits)&(1<<stepBits-1))
}

// middleOf returns the duration in the middle of a step, in nanoseconds.
func middleOf(step int) float64 {
	if step < 1<<stepBits {
		return float64(step)
	}
	power := step>>stepBits + stepBits - 1
	width := float64(uint64(1) << (power - stepBits))
	return float64(uint64(1)<<power) + (float64(step&(1<<stepBits-1))+0.5)*width
}

// addDecision adds a decision.
func (c *clock) addDecision(d time.Duration, sensitive bool) {
	c.all.add(d)
	c.counts[stepOf(d)]++
	if sensitive {
		c.sensitive.add(d)
	}
}

// isSampledEnd counts an end, and reports whether the end belongs to the sample.
func (c *clock) isSampledEnd() bool {
	c.endCount++
	return c.endCount%endsPerSample == 1
}

// allocatorShare returns the share of the elapsed time that decisions and ends took. It estimates the duration of all ends from the sample.
func (c *clock) allocatorShare(elapsed time.Duration) float64 {
	ends := ratio(float64(c.sampledEnds.time), float64(c.sampledEnds.n)) * float64(c.endCount)
	return min(1, ratio(float64(c.all.time)+ends, float64(elapsed)))
}

// quantile returns the duration, in seconds, that this share of the decisions does not exceed.
func (c *clock) quantile(share float64) float64 {
	rank := int64(share * float64(c.all.n))
	for step, n := range c.counts {
		if rank -= n; rank < 0 {
			return middleOf(step) / 1e9
		}
	}
	return 0
}

// timing returns the Timing of a replay with this duration and number of events.
func (c *clock) timing(elapsed time.Duration, events int64) Timing {
	return Timing{
		DecisionMean:          c.all.mean(),
		DecisionP50:           c.quantile(0.5),
		DecisionP99:           c.quantile(0.99),
		EventsPerSecond:       ratio(float64(events), elapsed.Seconds()),
		Seconds:               elapsed.Seconds(),
		DecisionSensitiveMean: c.sensitive.mean(),
		AllocatorShare:        c.allocatorShare(elapsed),
	}
}
