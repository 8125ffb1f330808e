package burst

import "time"

// An edge tracks the moment in each period at which the kernel refills a group's quota. The kernel draws the moment
// at random when it creates the group and does not change it. Timer expiries stay whole periods apart, even if the
// timer stopped in between.
type edge struct {
	period         time.Duration
	low, width     time.Duration // the edge is after low and until low+width, modulo the period
	contradictions int           // consecutive observations at another place
}

const (
	maxContradictions = 3
	slack             = 100 * time.Microsecond // maximum earliness of a wake-up
)

// newEdge returns an edge with an unknown place.
func newEdge(period, now time.Duration) edge {
	return edge{period: period, low: now % period, width: period}
}

// observe processes the number of edges that passed between two moments. A single edge in less than a period narrows its
// place.
func (e *edge) observe(from, to time.Duration, passed uint64) {
	span := to - from
	if passed != 1 || span <= 0 || span >= e.period {
		return
	}
	if e.width == e.period {
		e.low, e.width = from%e.period, span
		return
	}
	start := mod(from-e.low, e.period) // relative to low
	first := window{start, min(start+span, e.width)}
	second := window{0, min(start+span-e.period, e.width)} // of the next period
	switch {
	case first.isEmpty() && second.isEmpty():
		e.contradict(from)
	case first.isEmpty():
		e.narrow(second)
	case second.isEmpty():
		e.narrow(first)
	}
}

type window struct{ low, high time.Duration }

func (w window) isEmpty() bool { return w.low >= w.high }

func (e *edge) narrow(to window) {
	e.low = mod(e.low+to.low, e.period)
	e.width = to.high - to.low
	e.contradictions = 0
}

// contradict resets the expected place after repeated contrary observations. A single observation can be a late
// interrupt.
func (e *edge) contradict(now time.Duration) {
	if e.contradictions++; e.contradictions >= maxContradictions {
		*e = newEdge(e.period, now)
	}
}

// probe returns the next moment at which a reading halves the window of the edge.
func (e *edge) probe(now time.Duration) time.Duration {
	next := e.next(now, e.low-slack)
	next = min(next, e.next(now, e.low+e.width/2))
	return min(next, e.next(now, e.low+e.width+slack))
}

// nextAfter returns the next moment that is aim after an edge. nextBefore returns the next moment that is aim before an edge.
func (e *edge) nextAfter(now, aim time.Duration) time.Duration  { return e.next(now, e.low+e.width+aim) }
func (e *edge) nextBefore(now, aim time.Duration) time.Duration { return e.next(now, e.low-aim) }

// sinceLast returns the time since the last edge, for the latest possible edge.
func (e *edge) sinceLast(now time.Duration) time.Duration { return mod(now-e.low-e.width, e.period) }

// periodNumber returns a period number, valid for the present edge.
func (e *edge) periodNumber(now time.Duration) int64 {
	return int64((now - e.low - e.width - e.sinceLast(now)) / e.period)
}

// next returns the first moment after now at a place of the period.
func (e *edge) next(now, place time.Duration) time.Duration {
	wait := mod(place-now, e.period)
	if wait == 0 {
		wait = e.period
	}
	return now + wait
}

// mod returns the non-negative remainder.
func mod(a, b time.Duration) time.Duration {
	if a %= b; a < 0 {
		a += b
	}
	return a
}
