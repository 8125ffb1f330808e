// Package timescale summarizes a recording at several timescales. This is useful because a limit acts within 100 ms, and a
// mean over a minute hides the effects of a limit.
//
// ReadPart reads a recording of package record and returns a Summary. A window is a time of a fixed length, and the use in
// a window is the mean number of CPUs used. For each Group, a Summary contains the statistics of the windows of several
// lengths (Figures), the effect of limits (HiddenDemand), and phases. Group.Trace reads the use over time for Group.Plot.
// The package does not recommend limits; package advise does.
package timescale

import (
	"math"
	"time"

	"github.com/candor-project/candor/internal/quantile"
)

// Scales are the window lengths of a summary. A summary omits lengths below the interval of the recording.
var Scales = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, time.Minute}

// A window collects the CPU use of a group in consecutive windows of equal length: the CPU time in the present window, and the statistics
// of the completed windows.
type window struct {
	length  time.Duration
	end     time.Duration               // end of the present window
	used    float64                     // CPU time in the present window, in ns
	n       int64                       // number of completed windows
	sum     float64                     // sum of the uses of the completed windows, in CPUs
	squares float64                     // sum of the squares of these uses
	bins    quantile.Bins               // histogram of these uses
	visit   func(cpus float64, n int64) // if not nil, called for each n consecutive completed windows with equal use
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

// close completes n consecutive windows with the same use.
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

// minUse is the smallest use in CPUs that the quantiles distinguish from 0.
const minUse = 0.001

// Figures are the statistics of the uses of all windows of a length, in CPUs.
type Figures struct {
	Window  time.Duration // window length
	Windows int64         // number of complete windows; if 0, all statistics are 0
	Mean    float64
	P50     float64 // percentiles, with an error of up to 1 %
	P99     float64
	Peak    float64
	// PeakToMean is Peak divided by Mean, and Burstiness the standard deviation divided by Mean. Both are 0 for a group
	// without use.
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

// A Series is the use over time as fewer than maxPoints points. Each point is the maximum use of the same number of
// consecutive windows.
type Series struct {
	Window          time.Duration // window length
	CPUs            []float64     // points
	windowsPerPoint int64
	filled          int64   // number of windows in the present point
	peak            float64 // maximum use of these windows
}

const maxPoints = 2000

// Step returns the time between two points.
func (s *Series) Step() time.Duration { return time.Duration(s.windowsPerPoint) * s.Window }

// push appends n windows with the same use.
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

// halve replaces each two points by their maximum.
func (s *Series) halve() {
	for i := range len(s.CPUs) / 2 {
		s.CPUs[i] = max(s.CPUs[2*i], s.CPUs[2*i+1])
	}
	s.CPUs = s.CPUs[:len(s.CPUs)/2]
	s.windowsPerPoint *= 2
}
