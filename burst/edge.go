package burst

import "time"

// An edge is what is known of the moment in each period at which the kernel refills a group's quota. The
// kernel draws it at random when it makes the group, and keeps it: the timer's expiries stay apart by
// whole periods, also where it stopped in between.
type edge struct {
	period     time.Duration
	low, width time.Duration // it is after low and until low+width, modulo the period
	strikes    int           // how often in a row it was seen elsewhere
}

const (
	mostStrikes = 3
	slack       = 100 * time.Microsecond // what a wake may come too early
)

// newEdge is one of which nothing is known.
func newEdge(period, now time.Duration) edge {
	return edge{period: period, low: now % period, width: period}
}

// see takes in that so many edges passed between two moments. One in less than a period says where it was.
func (e *edge) see(from, to time.Duration, passed uint64) {
	span := to - from
	if passed != 1 || span <= 0 || span >= e.period {
		return
	}
	if e.width == e.period {
		e.low, e.width = from%e.period, span
		return
	}
	start := mod(from-e.low, e.period) // low is 0 now
	first := window{start, min(start+span, e.width)}
	second := window{0, min(start+span-e.period, e.width)} // of the period after
	switch {
	case first.empty() && second.empty():
		e.strike(from)
	case first.empty():
		e.narrow(second)
	case second.empty():
		e.narrow(first)
	}
}

type window struct{ low, high time.Duration }

func (w window) empty() bool { return w.low >= w.high }

func (e *edge) narrow(to window) {
	e.low = mod(e.low+to.low, e.period)
	e.width = to.high - to.low
	e.strikes = 0
}

// strike forgets where the edge is expected if it is seen elsewhere again and again. Once means
// nothing: an interrupt may be late.
func (e *edge) strike(now time.Duration) {
	if e.strikes++; e.strikes >= mostStrikes {
		*e = newEdge(e.period, now)
	}
}

// probe is the next moment at which a look tells in which half of the window the edge is.
func (e *edge) probe(now time.Duration) time.Duration {
	next := e.next(now, e.low-slack)
	next = min(next, e.next(now, e.low+e.width/2))
	return min(next, e.next(now, e.low+e.width+slack))
}

// after is the next moment that is so long after an edge; before is so long before one.
func (e *edge) after(now, aim time.Duration) time.Duration  { return e.next(now, e.low+e.width+aim) }
func (e *edge) before(now, aim time.Duration) time.Duration { return e.next(now, e.low-aim) }

// since is how long ago the last edge was, if it was as late as it may be.
func (e *edge) since(now time.Duration) time.Duration { return mod(now-e.low-e.width, e.period) }

// index numbers the periods, for one edge.
func (e *edge) index(now time.Duration) int64 {
	return int64((now - e.low - e.width - e.since(now)) / e.period)
}

// next is the first moment after now in its place of the period.
func (e *edge) next(now, place time.Duration) time.Duration {
	wait := mod(place-now, e.period)
	if wait == 0 {
		wait = e.period
	}
	return now + wait
}

// mod is the remainder, never below 0.
func mod(a, b time.Duration) time.Duration {
	if a %= b; a < 0 {
		a += b
	}
	return a
}
