package load

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Clients call a server. Each is on and off for exponentially distributed times, independent of the others: the
// Markov-modulated source of Stiliadis, "Kubernetes Scheduling and Timescales". Closed mode: while it is on, a client calls
// as fast as it can, one call at a time. Open mode: its calls are due at a rate, whatever becomes of those before, and
// each takes from when it was due: a server that stalls is not spared the calls that would have come meanwhile. One that was
// due and could not be made by the end took until then at least, and is counted so.
type Clients struct {
	URL     string
	Count   int
	On, Off time.Duration // on average; Off 0: always on
	Rate    float64       // calls a second of each client while it is on; 0: closed mode
	Length  time.Duration // of all
	Seed    uint64        // the same seed makes the same times
}

// callLimit is how long a call may take.
const callLimit = 30 * time.Second

// Run has them call until the length is over; the last calls are waited for. When ctx is done they are cut short, and not counted.
func (c Clients) Run(outer context.Context) *Report {
	ctx, cancel := context.WithTimeout(outer, c.Length)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: c.Count, MaxIdleConns: c.Count}
	defer transport.CloseIdleConnections()
	server := &http.Client{Transport: transport, Timeout: callLimit}
	report := newReport("CALLS")
	request, err := http.NewRequest(http.MethodGet, c.URL, nil)
	if err != nil {
		report.fail(err)
		return report
	}
	request.Header.Set("Accept-Encoding", "gzip") // as browsers do; what comes is not unpacked
	var all sync.WaitGroup
	began := time.Now()
	for i := range c.Count {
		all.Go(func() {
			one := client{c, server, request.Clone(outer), rand.New(rand.NewPCG(c.Seed, uint64(i))), report}
			one.run(ctx)
		})
	}
	all.Wait()
	report.Span = time.Since(began)
	return report
}

// A client is one of them.
type client struct {
	Clients
	server  *http.Client
	request *http.Request
	random  *rand.Rand
	report  *Report
}

// run keeps the schedule apart from the clock: in open mode a call that stalls moves none of those after it.
func (c *client) run(ctx context.Context) {
	at := time.Now().Add(c.pause())
	for ctx.Err() == nil || c.missed(ctx, at) {
		sleep(ctx, time.Until(at))
		on := c.Length
		if c.Off > 0 {
			on = time.Duration(c.random.ExpFloat64() * float64(c.On))
		}
		c.stretch(ctx, at, on)
		if at = at.Add(on); c.Rate == 0 {
			at = time.Now()
		}
		at = at.Add(c.pause())
	}
}

// pause is how long the client is off.
func (c *client) pause() time.Duration { return time.Duration(c.random.ExpFloat64() * float64(c.Off)) }

// missed reports whether what was due at a time should have come before the end, which has come.
func (c *client) missed(ctx context.Context, due time.Time) bool {
	end, _ := ctx.Deadline()
	return c.Rate > 0 && ctx.Err() != nil && due.Before(end) && due.Before(time.Now())
}

// stretch is a time in which the client is on.
func (c *client) stretch(ctx context.Context, began time.Time, on time.Duration) {
	for n := 0; ; n++ {
		due := time.Now()
		if c.Rate > 0 {
			due = began.Add(time.Duration(float64(n) / c.Rate * float64(time.Second)))
		}
		if due.Sub(began) >= on {
			return
		}
		sleep(ctx, time.Until(due))
		switch {
		case ctx.Err() == nil:
			c.call(ctx, due)
		case c.missed(ctx, due):
			c.report.add(time.Since(due))
		default:
			return
		}
	}
}

// call makes one call, to its end. In closed mode the client waits a moment after one that fails.
func (c *client) call(ctx context.Context, due time.Time) {
	answer, err := c.server.Do(c.request)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", c.URL, answer.Status)
	}
	switch {
	case c.request.Context().Err() != nil: // cut short
	case err == nil:
		c.report.add(time.Since(due))
	default:
		c.report.fail(err)
		if c.Rate == 0 {
			sleep(ctx, 100*time.Millisecond)
		}
	}
}
