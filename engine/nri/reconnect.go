package nri

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstWait       = 100 * time.Millisecond
	longestDialWait = time.Second     // short, because containers that start meanwhile run unplanned
	longestDropWait = 5 * time.Second // longer, because each synchronization holds up the runtime
	longestWait     = 5 * time.Minute
	// stableTime is the duration of a connection after which the runtime counts as stable. It exceeds the timeout of NRI's
	// synchronization, 2 s, so the synchronization of a stable connection is over.
	stableTime = 30 * time.Second
	// manyDeaths is the number of consecutive deaths of the runtime that are too many for planned restarts.
	manyDeaths = 3
	maxReasons = 10
)

// An ending describes the end of an attempt to connect, or of a connection.
type ending struct {
	connected bool
	lasted    time.Duration
	died      bool // the runtime's process ended, or is in another PID namespace
	err       error
}

// reconnects chooses the wait before the next connection, and the endings to log. Three kinds of consecutive failures have separate waits,
// which double with each failure:
//   - no process listens: an attempt costs nothing, and a restarted runtime needs the plugin soon
//   - a live runtime ends the connection
//   - the runtime dies shortly after the plugin connected: the connection can be the cause. The waits grow to minutes, in which the node
//     works without the plugin. Before manyDeaths the wait stays short, because the runtime may only have been restarted.
//
// A stable connection resets the waits.
type reconnects struct {
	stable    time.Duration // see stableTime
	deathWait time.Duration // wait after manyDeaths; it doubles with each further death

	dials, drops, deaths int // consecutive failures of the three kinds, in the order above
	reported             map[string]bool
}

func newReconnects() reconnects {
	return reconnects{stable: stableTime, deathWait: longestDropWait}
}

// next counts the end of a connection or of an attempt to connect. It returns the wait before the next attempt, and whether to log
// the end. Until a connection is stable, each reason is logged once, and a runtime that dies repeatedly is logged once.
func (r *reconnects) next(e ending) (wait time.Duration, report bool) {
	if e.connected && e.lasted >= r.stable {
		*r = reconnects{stable: r.stable, deathWait: r.deathWait}
	}
	before := r.isFlapping()
	switch {
	case !e.connected:
		r.dials++
		wait = doubled(firstWait, r.dials, longestDialWait)
	case e.died && e.lasted < r.stable:
		r.dials = 0
		if r.deaths++; r.deaths < manyDeaths {
			wait = firstWait
		} else {
			wait = doubled(r.deathWait, r.deaths-manyDeaths+1, longestWait)
		}
	default:
		r.dials = 0
		r.drops++
		wait = doubled(firstWait, r.drops, longestDropWait)
	}
	if r.isFlapping() {
		return wait, !before
	}
	return wait, r.isNew(fmt.Sprint(e.err))
}

// isFlapping reports whether the runtime has died repeatedly after the plugin connected.
func (r *reconnects) isFlapping() bool { return r.deaths >= manyDeaths }

func (r *reconnects) isNew(reason string) bool {
	if r.reported[reason] || len(r.reported) >= maxReasons {
		return false
	}
	if r.reported == nil {
		r.reported = map[string]bool{}
	}
	r.reported[reason] = true
	return true
}

// doubled returns the n-th wait, n from 1: the first wait doubled n-1 times, at most the longest wait.
func doubled(first time.Duration, n int, longest time.Duration) time.Duration {
	for ; n > 1 && first < longest; n-- {
		first *= 2
	}
	return min(first, longest)
}

// jitter lengthens a wait by up to a quarter. If the runtimes of a cluster restart together, their plugins thus connect at different
// times.
func jitter(wait time.Duration) time.Duration { return wait + rand.N(wait/4+1) }
