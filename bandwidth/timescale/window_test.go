package timescale

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// A piece is the CPU time between two readings.
type piece struct{ span, cpu time.Duration }

var pieces = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) piece {
	return piece{
		time.Duration(rapid.Int64Range(0, int64(400*ms)).Draw(t, "span")),
		time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(800*ms))).Draw(t, "CPU")),
	}
}), 0, 50)

// naive computes each window separately from all pieces.
func naive(all []piece, length time.Duration) []float64 {
	end := time.Duration(0)
	for _, p := range all {
		end += p.span
	}
	out := make([]float64, end/length)
	for i := range out {
		from, to := time.Duration(i)*length, time.Duration(i+1)*length
		at := time.Duration(0)
		for _, p := range all {
			if both := min(to, at+p.span) - max(from, at); both > 0 {
				out[i] += float64(p.cpu) * float64(both) / float64(p.span) / float64(length)
			}
			at += p.span
		}
	}
	return out
}

// TestWindows: the incremental computation of the windows equals the separate computation of each window.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := pieces.Draw(t, "pieces")
		length := time.Duration(rapid.Int64Range(int64(ms), int64(500*ms)).Draw(t, "length"))
		w := newWindow(length, 0)
		at := time.Duration(0)
		for _, p := range all {
			w.add(at, at+p.span, p.cpu)
			at += p.span
		}
		want := naive(all, length)
		f := w.figures()
		if f.Windows != int64(len(want)) {
			t.Fatalf("%d windows, want %d", f.Windows, len(want))
		}
		if len(want) == 0 {
			return
		}
		mean, squares := 0.0, 0.0
		for _, v := range want {
			mean += v / float64(len(want))
			squares += v * v / float64(len(want))
		}
		same := func(name string, got, want, within float64) {
			if math.Abs(got-want) > within {
				t.Fatalf("%s: %v, want %v", name, got, want)
			}
		}
		same("mean", f.Mean, mean, 1e-6)
		same("peak", f.Peak, slices.Max(want), 1e-6)
		if mean > 1e-3 {
			same("peak / mean", f.PeakToMean, slices.Max(want)/mean, 1e-3)
			same("burstiness", f.Burstiness, math.Sqrt(max(squares-mean*mean, 0))/mean, 1e-2)
		}
		slices.Sort(want)
		median := want[(len(want)+1)/2-1]
		same("p50", f.P50, median, 0.011*median+0.001)
		last := want[int(math.Ceil(0.99*float64(len(want))))-1]
		same("p99", f.P99, last, 0.011*last+0.001)
	})
}

// TestSeries: a series keeps the peak of a recording of any length, with a bounded number of points.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Series{Window: 10 * ms, windowsPerPoint: 1}
		var at, peakAt int64
		runs := rapid.SliceOfN(rapid.Int64Range(1, 3000), 1, 20).Draw(t, "runs")
		peak := rapid.IntRange(0, len(runs)-1).Draw(t, "the run before the peak")
		for i, n := range runs {
			s.push(1, n)
			at += n
			if i == peak {
				s.push(7, 1)
				peakAt = at
				at++
			}
		}
		step := int64(s.Step() / s.Window)
		if len(s.CPUs) >= maxPoints || int64(len(s.CPUs)) != at/step {
			t.Fatalf("%d points of %d windows for %d", len(s.CPUs), step, at)
		}
		for i, v := range s.CPUs {
			if want := int64(i) == peakAt/step; (v == 7) != want || !want && v != 1 {
				t.Fatalf("point %d is %v; the peak is in %d", i, v, peakAt/step)
			}
		}
	})
	huge := &Series{Window: 10 * ms, windowsPerPoint: 1}
	huge.push(0.5, 1<<40)
	if len(huge.CPUs) >= maxPoints || huge.CPUs[0] != 0.5 {
		t.Errorf("%d points", len(huge.CPUs))
	}
}

// TestLongPause: any time between two samples takes a single step.
func TestLongPause(t *testing.T) {
	const long = 1e4 * 24 * time.Hour
	w := newWindow(10*ms, 0)
	w.add(0, long, long/2)
	w.add(long, 2*long, 0)
	if f := w.figures(); f.Windows != int64(2*long/(10*ms)) || math.Abs(f.Mean-0.25) > 1e-9 || f.Peak != 0.5 || math.Abs(f.P50) > 0 || math.Abs(f.P99-0.5) > 0.01 {
		t.Errorf("%+v", f)
	}
}
