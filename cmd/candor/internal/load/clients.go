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

// Clients is a load of HTTP clients of a server. Each client is alternately on, when it makes calls, and off. The on and off times
// are exponentially distributed and independent: the Markov-modulated source of Stiliadis, "Kubernetes Scheduling and Timescales".
//
// In closed mode, a client that is on makes the next call as soon as it has the answer to the previous call. In open mode, calls
// are due at a fixed rate, and the latency of a call counts from its due time. The latencies therefore include the time that calls
// wait while the server stalls. A call that was due before the end, but was not made, counts with the time from its due time to the
// end.
type Clients struct {
	URL     string
	Count   int
	On, Off time.Duration // mean on and off times; Off 0: always on
	Rate    float64       // calls per second of each client that is on; 0: closed mode
	Length  time.Duration // total duration
	Seed    uint64        // seed of the random on and off times
}

// callLimit is the timeout of a call.
const callLimit = 30 * time.Second

// Run runs the clients until Length is over and waits for the last calls. If outer ends, Run cancels the current calls and does not
// count them.
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
	request.Header.Set("Accept-Encoding", "gzip") // as browsers do; the answer is not decompressed
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

// A client is a single client of the load.
type client struct {
	Clients
	server  *http.Client
	request *http.Request
	random  *rand.Rand
	report  *Report
}

// run alternates on and off times. In open mode, the due times do not depend on the calls: a call that stalls does not delay them.
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

// pause returns a random off time.
func (c *client) pause() time.Duration { return time.Duration(c.random.ExpFloat64() * float64(c.Off)) }

// missed reports whether a call in open mode was due before the end of the load, and this end has passed.
func (c *client) missed(ctx context.Context, due time.Time) bool {
	end, _ := ctx.Deadline()
	return c.Rate > 0 && ctx.Err() != nil && due.Before(end) && due.Before(time.Now())
}

// stretch makes the calls of a period in which the client is on. The period starts at began, and the parameter on is its length.
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

// call makes a call and reads the answer. In closed mode, call then waits a moment if the call failed, because otherwise the next call
// would follow at once.
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
	case c.request.Context().Err() != nil: // canceled
	case err == nil:
		c.report.add(time.Since(due))
	default:
		c.report.fail(err)
		if c.Rate == 0 {
			sleep(ctx, 100*time.Millisecond)
		}
	}
}
