// Package load generates test loads for trying out limits. Bursts computes in bursts. Clients makes calls to a server. Both return a
// Report with a histogram (HdrHistogram) of the durations of bursts or calls.
package load

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/candor-project/candor/internal/texttable"
)

const (
	shortest = time.Microsecond // smallest duration in the histogram
	longest  = time.Hour        // largest duration in the histogram
	digits   = 3                // significant digits of the histogram
)

// A Report is the result of a load.
type Report struct {
	What    string        // title of the count in the table: CALLS or BURSTS
	Span    time.Duration // duration of the load
	Errors  int           // failed calls
	CPU     time.Duration // CPU time of the bursts; 0 for clients
	Problem error         // error of the first failed call

	lock sync.Mutex // protects the fields that add and fail change
	took *hdrhistogram.Histogram
}

func newReport(what string) *Report {
	return &Report{What: what, took: hdrhistogram.New(int64(shortest), int64(longest), digits)}
}

// add counts a call or a burst of the given duration.
func (r *Report) add(took time.Duration) {
	r.lock.Lock()
	defer r.lock.Unlock()
	_ = r.took.RecordValue(int64(min(max(took, shortest), longest))) // cannot fail within the bounds
}

// fail counts a failed call.
func (r *Report) fail(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.Errors++; r.Problem == nil {
		r.Problem = err
	}
}

// Count returns the number of bursts or of calls that did not fail.
func (r *Report) Count() int64 { return r.took.TotalCount() }

// Rate returns the number of calls or bursts per second.
func (r *Report) Rate() float64 { return float64(r.Count()) / r.Span.Seconds() }

// Mean returns the mean duration.
func (r *Report) Mean() time.Duration { return time.Duration(r.took.Mean()) }

// Percentile returns a percentile of the durations. Its argument is from 0 to 100.
func (r *Report) Percentile(of float64) time.Duration {
	return time.Duration(r.took.ValueAtPercentile(of))
}

// percentiles lists the percentiles that a report contains.
var percentiles = []float64{50, 90, 99, 99.9, 100}

// WriteTable writes a readable report for a terminal of the given width; 0: unlimited.
func (r *Report) WriteTable(w io.Writer, width int) error {
	t := texttable.Table{Titles: []string{r.What, "A SECOND", "ERRORS", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"}, Ranks: []int{0, 0, 0, 0, 2, 5, 0, 4, 1}}
	row := []string{fmt.Sprint(r.Count()), fmt.Sprintf("%.1f", r.Rate()), fmt.Sprint(r.Errors), short(r.Mean())}
	for _, p := range percentiles {
		row = append(row, short(r.Percentile(p)))
	}
	if r.CPU > 0 {
		t.Titles, t.Ranks, row = append(t.Titles, "CPU TIME"), append(t.Ranks, 3), append(row, fmt.Sprintf("%.2fs", r.CPU.Seconds()))
	}
	t.Rows = [][]string{row}
	return t.Write(w, width)
}

// short formats a time with three digits.
func short(d time.Duration) string {
	for unit := time.Microsecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}

// A Document is the JSON form of a report.
type Document struct {
	Partial     bool               `json:"partial,omitempty"` // a signal ended the load early
	Count       int64              `json:"count"`             // calls or bursts
	Rate        float64            `json:"perSecond"`
	Errors      int                `json:"errors"`
	Span        float64            `json:"duringSeconds"`
	CPU         float64            `json:"usageSeconds,omitempty"`
	Mean        float64            `json:"meanSeconds"`
	Percentiles map[string]float64 `json:"percentileSeconds"` // by percentile, such as "99.9"
}

// Document returns the JSON form of a report.
func (r *Report) Document() *Document {
	d := &Document{Count: r.Count(), Rate: r.Rate(), Errors: r.Errors, Span: r.Span.Seconds(), CPU: r.CPU.Seconds(),
		Mean: r.Mean().Seconds(), Percentiles: map[string]float64{}}
	for _, p := range percentiles {
		d.Percentiles[fmt.Sprint(p)] = r.Percentile(p).Seconds()
	}
	return d
}

// WriteHistogram writes the histogram in HdrHistogram's text format, for its plotting tools. Times are in
// milliseconds.
func (r *Report) WriteHistogram(w io.Writer) error {
	_, err := r.took.PercentilesPrint(w, 5, float64(time.Millisecond))
	return err
}
