package quantile

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A sample is a value with its weight.
type sample struct{ value, weight float64 }

// exact returns the smallest value that covers the share of the weight: the quantile without bins.
func exact(samples []sample, share float64) float64 {
	samples = slices.SortedFunc(slices.Values(samples), func(a, b sample) int { return cmp.Compare(a.value, b.value) })
	total, sum := 0.0, 0.0
	for _, s := range samples {
		total += s.weight
	}
	for _, s := range samples {
		if sum += s.weight; sum >= share*total {
			return s.value
		}
	}
	return samples[len(samples)-1].value
}

// maxError is the width of a bin relative to its values, and rounding: Quantile returns the upper end of the bin.
const maxError = 0.01006

// TestQuantileProperty compares quantiles with exact quantiles of the same samples. A quantile below Least is 0. Any other
// quantile is at least the exact quantile, at most 1.006 % above it, and never above the peak.
func TestQuantileProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.SampledFrom([]float64{1e-6, 1e-3, 0.5, 1, 7}).Draw(t, "least")
		value := rapid.OneOf(
			rapid.Float64Range(0, 2*least),
			rapid.Float64Range(least, 1000*least),
			rapid.Float64Range(0, 1e15*least), // bins end at Least x e^40, about 2.35e17 x Least
			rapid.SampledFrom([]float64{0, least, math.Nextafter(least, 0), 2 * least, 1e9 * least}),
		)
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sample {
			return sample{value.Draw(t, "value"), float64(rapid.IntRange(1, 1000).Draw(t, "weight"))} // sums of integers are exact
		}), 1, 200).Draw(t, "samples")
		b, peak := Bins{Least: least}, 0.0
		for _, s := range samples {
			b.Add(s.value, s.weight)
			peak = max(peak, s.value)
		}
		if b.Peak() != peak {
			t.Fatalf("peak %g, want %g", b.Peak(), peak)
		}
		before := 0.0
		for _, share := range []float64{0, 1. / 64, 0.25, 0.5, 0.75, 63. / 64, 1} { // their products with sums of integers are exact
			got, want := b.Quantile(share), exact(samples, share)
			switch {
			case want < least && got != 0:
				t.Fatalf("quantile %g: %g, want 0: the exact quantile is %g, below %g", share, got, want, least)
			case want >= least && (got < want*(1-1e-12) || got > want*(1+maxError) || got > peak):
				t.Fatalf("quantile %g: %g, want %g to %g, at most the peak %g", share, got, want, want*(1+maxError), peak)
			case got < before:
				t.Fatalf("quantile %g: %g, less than %g of a smaller share", share, got, before)
			}
			before = got
		}
	})
}

func TestQuantileEdges(t *testing.T) {
	end := math.Exp(40) // of the last bin, where Least is 1
	for _, c := range []struct {
		name    string
		samples []sample
		want    map[float64]float64 // quantiles by share
		peak    float64
	}{
		{"empty", nil, map[float64]float64{0: 0, 0.5: 0, 1: 0}, 0},
		{"one value", []sample{{5, 1}}, map[float64]float64{0: 5, 0.5: 5, 1: 5}, 5},
		{"one value, a share above 1", []sample{{5, 1}}, map[float64]float64{1.5: 5}, 5},
		{"equal values", []sample{{5, 1}, {5, 2}, {5, 0.5}}, map[float64]float64{0: 5, 0.01: 5, 0.99: 5, 1: 5}, 5},
		{"Least itself", []sample{{1, 1}}, map[float64]float64{0: 1, 1: 1}, 1},
		{"below Least", []sample{{0.999, 1}}, map[float64]float64{0: 0, 1: 0}, 0.999},
		{"zero", []sample{{0, 3}}, map[float64]float64{1: 0}, 0},
		{"mostly below Least", []sample{{0, 3}, {2, 1}}, map[float64]float64{0.5: 0, 0.75: 0, 0.76: 2, 1: 2}, 2},
		{"negative values count as below Least", []sample{{-4, 1}, {2, 1}}, map[float64]float64{0.5: 0, 1: 2}, 2},
		{"negative values only", []sample{{-4, 1}}, map[float64]float64{1: 0}, 0},
		{"beyond the last bin", []sample{{1e300, 1}}, map[float64]float64{0: end, 1: end}, 1e300},
		{"the largest number", []sample{{math.MaxFloat64, 1}, {2, 1}}, map[float64]float64{1: end}, math.MaxFloat64},
		{"a heavy value", []sample{{2, 1e12}, {3, 1}}, map[float64]float64{0.5: 2, 0.999: 2, 1: 3}, 3},
		{"without weight", []sample{{2, 1}, {3, 0}}, map[float64]float64{1: 2}, 3},
	} {
		b := Bins{Least: 1}
		for _, s := range c.samples {
			b.Add(s.value, s.weight)
		}
		for share, want := range c.want {
			if got := b.Quantile(share); got < want || got > want*(1+maxError) {
				t.Errorf("%s: quantile %g is %g, want %g to %g", c.name, share, got, want, want*(1+maxError))
			}
		}
		if got := b.Peak(); got != c.peak {
			t.Errorf("%s: peak %g, want %g", c.name, got, c.peak)
		}
	}
}

// TestQuantileNaN shows that a value that is no number is visible in the results: the quantiles at and above Least and the peak are
// NaN, not a wrong number.
func TestQuantileNaN(t *testing.T) {
	b := Bins{Least: 1}
	b.Add(2, 1)
	b.Add(math.NaN(), 1)
	if got := b.Quantile(1); !math.IsNaN(got) {
		t.Errorf("quantile %g, want NaN", got)
	}
	if got := b.Peak(); !math.IsNaN(got) {
		t.Errorf("peak %g, want NaN", got)
	}
}

// TestQuantileOrder adds the same samples in two orders.
func TestQuantileOrder(t *testing.T) {
	samples := []sample{{3, 2}, {0.1, 1}, {40, 5}, {3.01, 1}, {1, 7}}
	a, b := Bins{Least: 1}, Bins{Least: 1}
	for i := range samples {
		a.Add(samples[i].value, samples[i].weight)
		last := samples[len(samples)-1-i]
		b.Add(last.value, last.weight)
	}
	for share := 0.0; share <= 1; share += 1. / 16 {
		if a.Quantile(share) != b.Quantile(share) {
			t.Errorf("quantile %g: %g and %g", share, a.Quantile(share), b.Quantile(share))
		}
	}
}
