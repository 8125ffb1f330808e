package experiment

import (
	"math/rand/v2"
	"slices"
)

// A Spread describes the distribution of values by its quartiles.
type Spread struct {
	N        int     `json:"n"`
	Min      float64 `json:"least"`
	Quarter  float64 `json:"quarter"` // first quartile
	Median   float64 `json:"median"`
	Quarter3 float64 `json:"quarter3"` // third quartile
	Max      float64 `json:"most"`
}

// SpreadOf returns the spread of values. It returns the zero value if there are no values.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 { return quantile(sorted, share) }
	return Spread{len(sorted), sorted[0], at(0.25), at(0.5), at(0.75), sorted[len(sorted)-1]}
}

// quantile interpolates between sorted values as R does by default (type 7). The median of two values is their mean.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 1 {
		return sorted[0]
	}
	at := share * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Median returns the median of values, 0 without values.
func Median(values []float64) float64 { return SpreadOf(values).Median }

// An Interval is a confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// resamples is the number of bootstrap samples. Of their medians, 50 lie beyond each end of a 95 % interval.
const resamples = 2000

// PairedInterval returns a confidence interval of the median of paired differences. It uses a percentile bootstrap
// (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979), which resamples the pairs. The random generator
// has a fixed seed, so that a report always shows the same interval.
func PairedInterval(differences []float64, confidence float64) Interval {
	if len(differences) == 0 {
		return Interval{}
	}
	random := rand.New(rand.NewPCG(uint64(len(differences)), 0))
	medians, drawn := make([]float64, resamples), make([]float64, len(differences))
	for i := range medians {
		medians[i] = Median(resample(random, drawn, differences))
	}
	return percentileInterval(medians, confidence)
}

// resample draws each element of the slice to from values, uniformly and with replacement, and returns the slice.
func resample(random *rand.Rand, to, values []float64) []float64 {
	for i := range to {
		to[i] = values[random.IntN(len(values))]
	}
	return to
}

// percentileInterval returns the interval that contains the given share of the values, with equally many values below
// and above it.
func percentileInterval(values []float64, share float64) Interval {
	slices.Sort(values)
	return Interval{quantile(values, (1-share)/2), quantile(values, (1+share)/2)}
}

// CliffsDelta returns Cliff's delta, from -1 to 1. It is the probability that a value of a is above a value of b, minus
// the probability that it is below this value of b (Cliff, "Dominance statistics", Psychological Bulletin 1993).
func CliffsDelta(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	sum := 0
	for _, x := range a {
		for _, y := range b {
			if x > y {
				sum++
			} else if x < y {
				sum--
			}
		}
	}
	return float64(sum) / float64(len(a)*len(b))
}
