// Package timescale summarizes a recording at several timescales. A limit acts within a tenth of a second, and a mean
// over a minute hides its effects.
//
// ReadPart reads a recording of package record and returns a Summary. For each Group it computes Figures for windows
// of several lengths, the effect of limits (Hidden), and phases. Group.Trace reads the use over time for Group.Plot.
// The package does not recommend limits; package advise does.
package timescale

import (
	"math"
	"time"

	"github.com/candor-project/candor/internal/quantile"
)

// Scales are the lengths of the windows of a summary. A summary omits lengths below the recording's interval.
var Scales = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, time.Minute}

// A window divides a group's use into windows of a fixed length and collects their statistics.
type window struct {
	length  time.Duration
	end     time.Duration // of the current window
	used    float64       // in the current window, ns
	n       int64         // completed windows
	sum     float64       // sum of their CPUs
	squares float64
	bins    quantile.Bins               // histogram of the windows by CPUs
	visit   func(cpus float64, n int64) // optional
}

func newWindow(length, start time.Duration) *window {
	return &window{length: length, end: start + length, bins: quantile.Bins{Least: minUse}}
}

// add spreads CPU time evenly over the time from one reading to the next.
func (w *window) add(from, to, cpu time.Duration) {
	if from >= to {
		return
	}
	rate := float64(cpu) / float64(to-from)
	if to < w.end {
		w.used += rate * float64(to-from)
		return
	}
	w.close((w.used+rate*float64(w.end-from))/float64(w.length), 1)
	if whole := int64((to - w.end + w.length) / w.length); whole > 0 {
		w.close(rate, whole)
	}
	w.used = rate * float64(to-w.end+w.length)
}

// close counts n consecutive windows with the given number of CPUs used.
func (w *window) close(cpus float64, n int64) {
	w.end += time.Duration(n) * w.length
	w.n += n
	w.sum += cpus * float64(n)
	w.squares += cpus * cpus * float64(n)
	w.bins.Add(cpus, float64(n))
	if w.visit != nil {
		w.visit(cpus, n)
	}
}

// minUse is the smallest use in CPUs that the quantiles distinguish from none.
const minUse = 0.001

// Figures are the statistics of the windows of a length, in CPUs.
type Figures struct {
	Window  time.Duration
	Windows int64 // complete windows; if 0, all other fields are 0
	Mean    float64
	P50     float64 // to 1 %
	P99     float64
	Peak    float64
	// PeakToMean and Burstiness (standard deviation / mean) are 0 for a group without use.
	PeakToMean, Burstiness float64
}

func (w *window) figures() Figures {
	f := Figures{Window: w.length, Windows: w.n, Peak: w.bins.Peak()}
	if w.n == 0 {
		return f
	}
	n := float64(w.n)
	f.Mean = w.sum / n
	f.P50, f.P99 = w.bins.Quantile(0.5), w.bins.Quantile(0.99)
	if f.Mean > 0 {
		f.PeakToMean = f.Peak / f.Mean
		f.Burstiness = math.Sqrt(max(w.squares/n-f.Mean*f.Mean, 0)) / f.Mean
	}
	return f
}

// A Series is the use over time as a bounded number of points. Each point is the maximum of the same number of
// windows.
type Series struct {
	Window          time.Duration // length of a window
	CPUs            []float64
	windowsPerPoint int64
	filled          int64 // windows in the current point
	peak            float64
}

const maxPoints = 2000

// Step returns the time between points.
func (s *Series) Step() time.Duration { return time.Duration(s.windowsPerPoint) * s.Window }

// push appends n windows.
func (s *Series) push(cpus float64, n int64) {
	for n > 0 {
		take := min(n, s.windowsPerPoint-s.filled)
		s.peak = max(s.peak, cpus)
		s.filled += take
		n -= take
		if s.filled < s.windowsPerPoint {
			return
		}
		s.CPUs = append(s.CPUs, s.peak)
		s.peak, s.filled = 0, 0
		if len(s.CPUs) == maxPoints {
			s.halve()
		}
	}
}

// halve merges pairs of points.
func (s *Series) halve() {
	for i := range len(s.CPUs) / 2 {
		s.CPUs[i] = max(s.CPUs[2*i], s.CPUs[2*i+1])
	}
	s.CPUs = s.CPUs[:len(s.CPUs)/2]
	s.windowsPerPoint *= 2
}
