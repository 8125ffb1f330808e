package load

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const ms = time.Millisecond

// stalling is a server that answers its third call late.
func stalling(t *testing.T, late time.Duration) string {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 3 {
			time.Sleep(late)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// slow is how many calls took so long.
func (r *Report) slow(least time.Duration) (n int64) {
	for _, bar := range r.took.Distribution() {
		if bar.From >= int64(least) {
			n += bar.Count
		}
	}
	return n
}

// TestOmissionIsCorrected: calls that were due during a stall of the server count as slow, although the server answers
// each call at once after the stall. At 1000 calls per second and a stall of 300 ms, the calls of the first 150 ms
// wait for 150 ms or more.
func TestOmissionIsCorrected(t *testing.T) {
	c := Clients{URL: stalling(t, 300*ms), Count: 1, On: time.Second, Rate: 1000, Length: 600 * ms}
	if got := c.Run(context.Background()); got.slow(140*ms) < 100 || got.Errors > 0 {
		t.Errorf("open mode: %d slow calls of %d, %v", got.slow(140*ms), got.Count(), got.Problem)
	}
	c.URL, c.Rate = stalling(t, 300*ms), 0
	if got := c.Run(context.Background()); got.slow(190*ms) == 0 || got.slow(190*ms) > got.Count()/2 {
		t.Errorf("closed mode: %d slow calls of %d", got.slow(190*ms), got.Count())
	}
}

// TestStallAtTheEnd: all calls that were due during a stall count, also if the stall lasts longer than a reporting
// interval and the load itself.
func TestStallAtTheEnd(t *testing.T) {
	c := Clients{URL: stalling(t, 500*ms), Count: 1, On: 10 * ms, Off: 10 * ms, Rate: 1000, Length: 400 * ms}
	got := c.Run(context.Background())
	if got.slow(100*ms) < 50 || got.Count() > 400 || got.Errors > 0 {
		t.Errorf("%d slow calls of %d, %v", got.slow(100*ms), got.Count(), got.Problem)
	}
}

// TestErrorsTakeNoTime: in open mode, a failed call delays no later call.
func TestErrorsTakeNoTime(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer s.Close()
	c := Clients{URL: s.URL, Count: 1, On: time.Second, Rate: 50, Length: time.Second}
	if got := c.Run(context.Background()); got.Errors < 12 { // 25 are due; with pauses of 100 ms it would be 10
		t.Errorf("%d calls and %d errors", got.Count(), got.Errors)
	}
}

// TestCutShort: calls that the user interrupts are not counted, and are no errors.
func TestCutShort(t *testing.T) {
	hung := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-hung }))
	defer s.Close()
	defer close(hung)
	for name, run := range map[string]func(context.Context) *Report{
		"calls":  Clients{URL: s.URL, Count: 2, On: time.Hour, Length: time.Hour}.Run,
		"bursts": Bursts{Threads: 2, Work: time.Hour, Length: time.Hour}.Run,
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 100*ms)
		if got := run(ctx); got.Count() > 0 || got.Errors > 0 {
			t.Errorf("%s: %d counted, %d errors", name, got.Count(), got.Errors)
		}
		cancel()
	}
	if got := (Bursts{Threads: 2, Work: time.Hour, Length: 50 * ms}).Run(context.Background()); got.Count() > 0 {
		t.Errorf("%d bursts of an hour in 50 ms", got.Count())
	}
}

func TestFailingServer(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	c := Clients{URL: s.URL, Count: 3, On: 10 * ms, Off: 10 * ms, Length: time.Second}
	if got := c.Run(context.Background()); got.Count() > 0 || got.Errors == 0 || !strings.Contains(got.Problem.Error(), "404") {
		t.Errorf("%d calls, %d errors, %v", got.Count(), got.Errors, got.Problem)
	}
}

func TestBursts(t *testing.T) {
	const length = time.Second // a busy machine may be late with a burst, not by so much
	got := Bursts{Threads: 3, Work: 10 * ms, Rest: 5 * ms, Length: length}.Run(context.Background())
	if n := time.Duration(got.Count()); n == 0 || got.CPU < n*30*ms || got.Percentile(50) < 10*ms {
		t.Errorf("%d bursts of 3 x 10ms: %v of CPU time, median %v", n, got.CPU, got.Percentile(50))
	}
	got = Bursts{Threads: 2, For: 20 * ms, Rest: time.Hour, Length: length}.Run(context.Background())
	if got.Count() != 1 || got.Percentile(50) < 19*ms {
		t.Errorf("for 20ms: %d bursts, median %v", got.Count(), got.Percentile(50))
	}
}

func TestReport(t *testing.T) {
	r := newReport("CALLS")
	for i := range 1000 {
		r.add(time.Duration(i+1) * ms)
	}
	r.add(2 * longest)
	r.Span = 10 * time.Second
	text, err := json.Marshal(r.Document())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Count             int
		PerSecond         float64
		PercentileSeconds map[string]float64
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Count != 1001 || got.PerSecond != 100.1 {
		t.Errorf("%s: %v", text, err)
	}
	for of, want := range map[string]float64{"50": 0.501, "99": 0.991, "100": 3600} {
		if got := got.PercentileSeconds[of]; got < want*0.999 || got > want*1.001 {
			t.Errorf("percentile %s: %v, want %v", of, got, want)
		}
	}
	var table, hdr strings.Builder
	if err := r.WriteTable(&table, 0); err != nil || !strings.Contains(table.String(), "501ms") {
		t.Errorf("%s %v", &table, err)
	}
	var narrow strings.Builder
	r.CPU = time.Second
	if err := r.WriteTable(&narrow, 50); err != nil || strings.Join(strings.Fields(strings.SplitN(narrow.String(), "\n", 2)[0]), " ") != "CALLS A SECOND ERRORS MEAN P99 MAX" ||
		!strings.Contains(narrow.String(), "Hidden: P50, P90, P99.9, CPU TIME.") {
		t.Errorf("50 columns: %v\n%s", err, &narrow)
	}
	if err := r.WriteHistogram(&hdr); err != nil || !strings.Contains(hdr.String(), "TotalCount") && !strings.Contains(hdr.String(), "Total count") {
		t.Errorf("%s %v", &hdr, err)
	}
}
