package quota

import "time"

// An edge estimates the phase of a group's period edges, which is the time of an edge modulo the period. The kernel draws
// the phase at random when it creates the group and never changes it: period edges are whole periods apart, even if the
// kernel's timer stopped in between.
//
// The estimate is a window that contains the phase. Readings of nr_periods narrow the window.
type edge struct {
	period         time.Duration
	low, width     time.Duration // the phase is above low and at most low+width, modulo the period
	contradictions int           // consecutive observations of an edge outside the window
}

const (
	maxContradictions = 3                      // number of contradictions after which the estimate starts again
	slack             = 100 * time.Microsecond // readings beside the window keep this distance, because wake-ups are imprecise
)

// newEdge returns an edge with an unknown phase: the window is the whole period.
func newEdge(period, now time.Duration) edge {
	return edge{period: period, low: now % period, width: period}
}

// observe processes the number of period edges between two readings (passed). If this number is 1 and the readings are less than
// a period apart, the phase is between the readings, so observe narrows the window.
func (e *edge) observe(from, to time.Duration, passed uint64) {
	span := to - from
	if passed != 1 || span <= 0 || span >= e.period {
		return
	}
	if e.width == e.period {
		e.low, e.width = from%e.period, span
		return
	}
	// The observation can overlap the window of this period, and also the window of the next period. Times are relative to low.
	start := mod(from-e.low, e.period)
	first := window{start, min(start+span, e.width)}
	second := window{0, min(start+span-e.period, e.width)}
	switch {
	case first.isEmpty() && second.isEmpty():
		e.contradict(from)
	case first.isEmpty():
		e.narrow(second)
	case second.isEmpty():
		e.narrow(first)
	}
}

// A window is a part of an edge's window, relative to edge.low.
type window struct{ low, high time.Duration }

func (w window) isEmpty() bool { return w.low >= w.high }

func (e *edge) narrow(to window) {
	e.low = mod(e.low+to.low, e.period)
	e.width = to.high - to.low
	e.contradictions = 0
}

// contradict counts an observation of an edge outside the window. After maxContradictions in a row it resets the estimate. A
// single contradiction does not reset the estimate, because a late interrupt can cause it.
func (e *edge) contradict(now time.Duration) {
	if e.contradictions++; e.contradictions >= maxContradictions {
		*e = newEdge(e.period, now)
	}
}

// probe returns the time of the next reading that can narrow the window: shortly before, in the middle of, or shortly
// after the window.
func (e *edge) probe(now time.Duration) time.Duration {
	next := e.next(now, e.low-slack)
	next = min(next, e.next(now, e.low+e.width/2))
	return min(next, e.next(now, e.low+e.width+slack))
}

// nextAfter returns the next moment at the given distance after the end of the window.
func (e *edge) nextAfter(now, distance time.Duration) time.Duration {
	return e.next(now, e.low+e.width+distance)
}

// nextBefore returns the next moment at the given distance before the start of the window.
func (e *edge) nextBefore(now, distance time.Duration) time.Duration {
	return e.next(now, e.low-distance)
}

// sinceLast returns the time since the last edge. It assumes that the phase is at the end of the window.
func (e *edge) sinceLast(now time.Duration) time.Duration { return mod(now-e.low-e.width, e.period) }

// periodNumber returns the number of the period that contains a moment. Numbers are comparable only while the window does
// not change.
func (e *edge) periodNumber(now time.Duration) int64 {
	return int64((now - e.low - e.width - e.sinceLast(now)) / e.period)
}

// next returns the first moment after now that has the given phase.
func (e *edge) next(now, phase time.Duration) time.Duration {
	wait := mod(phase-now, e.period)
	if wait == 0 {
		wait = e.period
	}
	return now + wait
}

// mod returns the non-negative remainder of a divided by b.
func mod(a, b time.Duration) time.Duration {
	if a %= b; a < 0 {
		a += b
	}
	return a
}
