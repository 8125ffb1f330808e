package experiment

import (
	"math/rand/v2"
	"slices"
)

// A Spread is where values lie.
type Spread struct {
	N        int     `json:"n"`
	Min      float64 `json:"least"`
	Quarter  float64 `json:"quarter"` // 25 % are below
	Median   float64 `json:"median"`
	Quarter3 float64 `json:"quarter3"` // 75 % are below
	Max      float64 `json:"most"`
}

// SpreadOf returns where values lie; the zero value of none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 { return quantile(sorted, share) }
	return Spread{len(sorted), sorted[0], at(0.25), at(0.5), at(0.75), sorted[len(sorted)-1]}
}

// quantile interpolates between the values around a share of them, as R does by default (type 7: the median of two
// is their mean). They are sorted.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 1 {
		return sorted[0]
	}
	at := share * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Median returns the middle of values, 0 of none.
func Median(values []float64) float64 { return SpreadOf(values).Median }

// An Interval is where a figure lies with some confidence.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// resamples is how often a bootstrap draws: the ends of a 95 % interval then have 50 draws beyond each.
const resamples = 2000

// PairedInterval returns where the median of paired differences lies, by a percentile bootstrap (Efron, "Bootstrap
// Methods: Another Look at the Jackknife", 1979): the pairs are drawn from anew, by a generator with a fixed
// seed, so that a report shows the same interval each time.
func PairedInterval(differences []float64, confidence float64) Interval {
	if len(differences) == 0 {
		return Interval{}
	}
	random := rand.New(rand.NewPCG(uint64(len(differences)), 0))
	medians, drawn := make([]float64, resamples), make([]float64, len(differences))
	for i := range medians {
		medians[i] = Median(draw(random, drawn, differences))
	}
	return middle(medians, confidence)
}

// draw fills to with values, each as likely each time.
func draw(random *rand.Rand, to, values []float64) []float64 {
	for i := range to {
		to[i] = values[random.IntN(len(values))]
	}
	return to
}

// middle returns the interval that holds a share of values, with as many below as above.
func middle(values []float64, share float64) Interval {
	slices.Sort(values)
	return Interval{quantile(values, (1-share)/2), quantile(values, (1+share)/2)}
}

// CliffsDelta is how often a value of a is above one of b less how often it is below, from -1 to 1 (Cliff,
// "Dominance statistics", Psychological Bulletin 1993).
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
