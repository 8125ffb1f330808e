package advise

import (
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A chain is a sequence of containers. Each container does its work for a request and then sends the request to the next
// container. The answer of the last container returns through all containers in reverse order, and costs no CPU time. But
// a container whose quota is used up cannot pass an answer on before its next period. Each container has its own
// bandwidth.Sim. A chain stores only requests in progress.
type chain []*hop

// A hop is a container of a chain.
type hop struct {
	*bandwidth.Sim
	arrivals queue[request]       // requests that arrive later; the Sim does not have them yet
	active   queue[request]       // requests in the Sim
	answers  queue[time.Duration] // times at which this hop has passed an answer on to the preceding hop
	halts    queue[halt]          // past halts of the hop that can have delayed an answer
}

// A request is the work of a step of a Demand.
type request struct {
	at      time.Duration // arrival time
	work    time.Duration
	threads int
}

// A halt is a time in which no thread of a container could run.
type halt struct{ start, end time.Duration }

// newChain returns a chain of hops containers, each with the same number of CPUs and the same bandwidth.
func newChain(hops, cpus int, b bandwidth.Bandwidth) chain {
	c := make(chain, hops)
	for i := range c {
		c[i] = &hop{Sim: bandwidth.New(bandwidth.Linux, cpus, bandwidth.Setting{Bandwidth: b, HasFullBurst: true, Phase: phase(b.Period, i)})}
	}
	for i, h := range c[:hops-1] {
		next := c[i+1]
		h.Follow(0, func(at time.Duration) {
			p := h.active.pop()
			p.at = at
			next.arrivals.push(p)
		})
		h.FollowHalts(0, func(from, to time.Duration) { h.halts.push(halt{from, to}) })
	}
	last := c[hops-1]
	last.Follow(0, func(at time.Duration) {
		last.active.pop()
		last.answers.push(at)
	})
	return c
}

// add sends a request to the first container.
func (c chain) add(at, work time.Duration, threads int) {
	c[0].arrivals.push(request{at, work, threads})
}

// run advances all containers to a time. It calls done for each request whose answer has returned by this time, in the
// order of the requests.
func (c chain) run(until time.Duration, done func(at time.Duration)) {
	for _, h := range c {
		h.run(until)
	}
	for i := len(c) - 2; i >= 0; i-- {
		c[i].returnAnswers(c[i+1])
	}
	for !c[0].answers.isEmpty() {
		done(c[0].answers.pop())
	}
}

// run advances a container to a time. The container gets the requests that arrive until then.
func (h *hop) run(until time.Duration) {
	for !h.arrivals.isEmpty() {
		p := h.arrivals.pop()
		h.Run(p.at)
		h.SetThreads(0, p.threads)
		h.active.push(p)
		h.Add(0, p.work)
	}
	h.Run(until)
}

// returnAnswers passes on the answers of nextHop, up to the first answer whose time at this container is not known yet.
func (h *hop) returnAnswers(nextHop *hop) {
	for !nextHop.answers.isEmpty() {
		at, isKnown := h.passTime(nextHop.answers.first())
		if !isKnown {
			return
		}
		nextHop.answers.pop()
		h.answers.push(at)
	}
}

// passTime returns the time at which the container passes on an answer that it receives at a given time. This is the same time, or the end
// of the halt if the container is halted. isKnown is false if the end of the halt is not known yet.
func (h *hop) passTime(at time.Duration) (passed time.Duration, isKnown bool) {
	for !h.halts.isEmpty() && h.halts.first().end <= at { // later answers cannot need these halts, because answers arrive in order
		h.halts.pop()
	}
	if !h.halts.isEmpty() {
		if next := h.halts.first(); next.start <= at {
			at = next.end
		}
		return at, true
	}
	since, halted := h.Halted(0)
	return at, !halted || at < since
}
