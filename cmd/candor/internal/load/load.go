// Package load puts the kinds of load on a machine with which limits are tried out: a program that computes in bursts, and
// clients of a server that are on and off. What they meet is kept in histograms (HdrHistogram).
package load

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	shortest = time.Microsecond // what a histogram tells apart
	longest  = time.Hour
	digits   = 3
)

// A Report is what a load has met.
type Report struct {
	What    string        // what was counted: calls, bursts
	Span    time.Duration // how long it was
	Errors  int           // calls that were not answered as they should be
	CPU     time.Duration // CPU time that the bursts have used; 0 for clients
	Problem error         // the first of Errors

	lock sync.Mutex // of add and fail
	took *hdrhistogram.Histogram
}

func newReport(what string) *Report {
	return &Report{What: what, took: hdrhistogram.New(int64(shortest), int64(longest), digits)}
}

// add counts one of what took so long.
func (r *Report) add(took time.Duration) {
	r.lock.Lock()
	defer r.lock.Unlock()
	_ = r.took.RecordValue(int64(min(max(took, shortest), longest))) // within the bounds it is never refused
}

// fail counts a call that was not answered as it should be.
func (r *Report) fail(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.Errors++; r.Problem == nil {
		r.Problem = err
	}
}

// Count is how many there were, without errors.
func (r *Report) Count() int64 { return r.took.TotalCount() }

// Rate is how many a second.
func (r *Report) Rate() float64 { return float64(r.Count()) / r.Span.Seconds() }

// Mean is how long one took on average.
func (r *Report) Mean() time.Duration { return time.Duration(r.took.Mean()) }

// Percentile is how long those took at the most that are so many of a hundred.
func (r *Report) Percentile(of float64) time.Duration {
	return time.Duration(r.took.ValueAtPercentile(of))
}

// percentiles are those that a report tells.
var percentiles = []float64{50, 90, 99, 99.9, 100}

// WriteTable writes a report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tA SECOND\tERRORS\tMEAN\tP50\tP90\tP99\tP99.9\tMAX", r.What)
	if r.CPU > 0 {
		fmt.Fprint(t, "\tCPU TIME")
	}
	fmt.Fprintf(t, "\n%d\t%.1f\t%d\t%s", r.Count(), r.Rate(), r.Errors, short(r.Mean()))
	for _, p := range percentiles {
		fmt.Fprintf(t, "\t%s", short(r.Percentile(p)))
	}
	if r.CPU > 0 {
		fmt.Fprintf(t, "\t%.2fs", r.CPU.Seconds())
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// short is a time to three digits.
func short(d time.Duration) string {
	for unit := time.Microsecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}

// MarshalJSON writes a report for programs: times in seconds.
func (r *Report) MarshalJSON() ([]byte, error) {
	out := struct {
		Count       int64              `json:"count"`
		Rate        float64            `json:"perSecond"`
		Errors      int                `json:"errors"`
		Span        float64            `json:"seconds"`
		CPU         float64            `json:"cpuSeconds,omitempty"`
		Mean        float64            `json:"meanSeconds"`
		Percentiles map[string]float64 `json:"percentileSeconds"`
	}{r.Count(), r.Rate(), r.Errors, r.Span.Seconds(), r.CPU.Seconds(), r.Mean().Seconds(), map[string]float64{}}
	for _, p := range percentiles {
		out.Percentiles[fmt.Sprint(p)] = r.Percentile(p).Seconds()
	}
	return json.Marshal(out)
}

// WriteHistogram writes all of it in the text form that HdrHistogram's tools draw; times in milliseconds.
func (r *Report) WriteHistogram(w io.Writer) error {
	_, err := r.took.PercentilesPrint(w, 5, float64(time.Millisecond))
	return err
}
