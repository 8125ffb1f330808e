package experiment

import "slices"

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

// IsKnown reports whether the interval exists. The zero value stands for too few pairs.
func (i Interval) IsKnown() bool { return i != Interval{} }

// Bounds are the one-sided confidence bounds of a ratio. Each bound has a level of its own.
type Bounds struct {
	Low  float64 `json:"low,omitzero"`  // 0: too few pairs
	High float64 `json:"high,omitzero"` // 0: too few pairs
}

// invert returns the interval of the inverse ratio.
func (i Interval) invert() Interval {
	if !i.IsKnown() {
		return i
	}
	return Interval{1 / i.High, 1 / i.Low}
}

// CliffsDelta returns Cliff's delta, from -1 to 1. It is the probability that a random value of a is above a random value of b,
// minus the probability of the opposite (Cliff, "Dominance statistics", Psychological Bulletin 1993).
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
