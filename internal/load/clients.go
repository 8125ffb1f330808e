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
// each takes from when it was due: a server that stalls is not spared the calls that would have come meanwhile.
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

// Run has them call until the length is over or ctx is done.
func (c Clients) Run(ctx context.Context) *Report {
	ctx, cancel := context.WithTimeout(ctx, c.Length)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: c.Count, MaxIdleConns: c.Count}
	defer transport.CloseIdleConnections()
	server := &http.Client{Transport: transport, Timeout: callLimit}
	report := newReport("CALLS")
	request, err := http.NewRequest(http.MethodGet, c.URL, nil)
	if err != nil {
		report.Errors, report.Problem = 1, err
		return report
	}
	request.Header.Set("Accept-Encoding", "gzip") // as browsers do; what comes is not unpacked
	var lock sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for i := range c.Count {
		all.Go(func() {
			one := client{c, server, request.Clone(context.Background()), rand.New(rand.NewPCG(c.Seed, uint64(i))), newReport("CALLS")}
			one.run(ctx)
			lock.Lock()
			defer lock.Unlock()
			report.merge(one.report)
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

func (c *client) run(ctx context.Context) {
	c.rest(ctx)
	for ctx.Err() == nil {
		on := time.Duration(c.random.ExpFloat64() * float64(c.On))
		if c.Off == 0 {
			on = c.Length
		}
		c.stretch(ctx, time.Now(), on)
		c.rest(ctx)
	}
}

func (c *client) rest(ctx context.Context) {
	if c.Off > 0 {
		sleep(ctx, time.Duration(c.random.ExpFloat64()*float64(c.Off)))
	}
}

// stretch is a time in which the client is on.
func (c *client) stretch(ctx context.Context, began time.Time, on time.Duration) {
	for n := 0; ctx.Err() == nil; n++ {
		due := time.Now()
		if c.Rate > 0 {
			due = began.Add(time.Duration(float64(n) / c.Rate * float64(time.Second)))
		}
		if due.Sub(began) >= on {
			return
		}
		sleep(ctx, time.Until(due))
		if ctx.Err() == nil {
			c.call(due)
		}
	}
}

// call makes one call, to its end. After one that fails it waits a moment.
func (c *client) call(due time.Time) {
	answer, err := c.server.Do(c.request)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", c.URL, answer.Status)
	}
	if err == nil {
		c.report.add(time.Since(due))
		return
	}
	if c.report.Errors++; c.report.Problem == nil {
		c.report.Problem = err
	}
	time.Sleep(100 * time.Millisecond)
}
