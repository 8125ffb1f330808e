package advise

import (
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A chain is containers that work passes, one after the other, each of a model of its own. The answer goes back through all of
// them, which costs no CPU time; but a container whose quota is used up can't pass it on before its next period. Only what is
// under way is kept.
type chain []*hop

// A hop is a container of a chain.
type hop struct {
	*bandwidth.Sim
	coming  queue[piece]         // work that it gets
	doing   queue[piece]         // work that it has
	answers queue[time.Duration] // when they came back from behind it, and passed it
	halts   queue[halt]          // that are over, and may have held up an answer
}

// A piece is the work of a step.
type piece struct {
	at      time.Duration // when it comes
	work    time.Duration
	threads int
}

// A halt is a time in which nothing of a container could run.
type halt struct{ from, to time.Duration }

// newChain returns as many containers as hops, each on so many CPUs and under the bandwidth.
func newChain(hops, cpus int, b bandwidth.Bandwidth) chain {
	c := make(chain, hops)
	for i := range c {
		c[i] = &hop{Sim: bandwidth.New(bandwidth.Linux, cpus, bandwidth.Setting{Bandwidth: b, Rested: true, Phase: phase(b.Period, i)})}
	}
	for i, h := range c[:hops-1] {
		next := c[i+1]
		h.Follow(0, func(at time.Duration) {
			p := h.doing.pop()
			p.at = at
			next.coming.push(p)
		})
		h.FollowHalts(0, func(from, to time.Duration) { h.halts.push(halt{from, to}) })
	}
	last := c[hops-1]
	last.Follow(0, func(at time.Duration) {
		last.doing.pop()
		last.answers.push(at)
	})
	return c
}

// add gives the first container work at a time.
func (c chain) add(at, work time.Duration, threads int) {
	c[0].coming.push(piece{at, work, threads})
}

// run lets all containers run until a time, and calls done for each piece of work whose answer has come back by then, in their order.
func (c chain) run(until time.Duration, done func(at time.Duration)) {
	for _, h := range c {
		h.run(until)
	}
	for i := len(c) - 2; i >= 0; i-- {
		c[i].passBack(c[i+1])
	}
	for !c[0].answers.empty() {
		done(c[0].answers.pop())
	}
}

// run lets a container run, and gives it the work that comes until then.
func (h *hop) run(until time.Duration) {
	for !h.coming.empty() {
		p := h.coming.pop()
		h.Run(p.at)
		h.SetThreads(0, p.threads)
		h.doing.push(p)
		h.Add(0, p.work)
	}
	h.Run(until)
}

// passBack passes on the answers of the container behind.
func (h *hop) passBack(behind *hop) {
	for !behind.answers.empty() {
		at, known := h.passes(behind.answers.first())
		if !known {
			return
		}
		behind.answers.pop()
		h.answers.push(at)
	}
}

// passes is when a container passes on an answer that comes at a time: at once, or when its halt is over, which may not be known yet.
func (h *hop) passes(at time.Duration) (passed time.Duration, known bool) {
	for !h.halts.empty() && h.halts.first().to <= at { // answers come in their order
		h.halts.pop()
	}
	if !h.halts.empty() {
		if next := h.halts.first(); next.from <= at {
			at = next.to
		}
		return at, true
	}
	since, halted := h.Halted(0)
	return at, !halted || at < since
}
