// Package timescale shows one recording at several timescales: a limit acts within
// a tenth of a second, and a mean over a minute does not show what it meets there.
package timescale

import (
	"math"
	"time"

	"github.com/candor-project/candor/internal/quantile"
)

// Scales are the lengths of windows that a summary has, where the recording is fine enough.
var Scales = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, time.Minute}

// A window cuts a group's use into windows of one length and counts what is in them.
type window struct {
	length  time.Duration
	end     time.Duration // of the present window
	used    float64       // in the present window, ns
	n       int64         // windows that have ended
	sum     float64       // of their CPUs
	squares float64
	bins    quantile.Bins               // the windows by their CPUs
	visit   func(cpus float64, n int64) // nil: nobody
}

func newWindow(length, start time.Duration) *window {
	return &window{length: length, end: start + length, bins: quantile.Bins{Least: least}}
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

// close counts n windows in a row with that many CPUs used.
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

// least is what is told from nothing in quantiles, in CPUs.
const least = 0.001

// Figures are what the windows of one length hold, in CPUs.
type Figures struct {
	Window  time.Duration
	Windows int64 // whole ones; where it is 0 all else is
	Mean    float64
	P50     float64 // to one in a hundred
	P99     float64
	Peak    float64
	// PeakToMean and Burstiness (standard deviation / mean) are 0 for one that used nothing.
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

// A Series is the use over time in a bounded number of points: each is the highest of
// as many windows as it takes.
type Series struct {
	Window time.Duration // of a value
	CPUs   []float64
	each   int64
	filled int64 // windows in the point that is being made
	high   float64
}

const maxPoints = 2000

// Step is the time from one point to the next.
func (s *Series) Step() time.Duration { return time.Duration(s.each) * s.Window }

// push appends n windows.
func (s *Series) push(cpus float64, n int64) {
	for n > 0 {
		take := min(n, s.each-s.filled)
		s.high = max(s.high, cpus)
		s.filled += take
		n -= take
		if s.filled < s.each {
			return
		}
		s.CPUs = append(s.CPUs, s.high)
		s.high, s.filled = 0, 0
		if len(s.CPUs) == maxPoints {
			s.halve()
		}
	}
}

// halve puts two points into one.
func (s *Series) halve() {
	for i := range len(s.CPUs) / 2 {
		s.CPUs[i] = max(s.CPUs[2*i], s.CPUs[2*i+1])
	}
	s.CPUs = s.CPUs[:len(s.CPUs)/2]
	s.each *= 2
}
