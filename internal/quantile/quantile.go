// Package quantile counts values in bins with a relative width of one percent: enough for quantiles of many values in little memory.
//
// Other packages are not sufficient: stat.Quantile of gonum keeps and sorts all values, and hdrhistogram-go counts integers
// without weights.
package quantile

import (
	"maps"
	"math"
	"slices"
)

const binsPerE, maxBin = 100, 4000

// Bins counts values. All values below Least share a bin.
type Bins struct {
	Least  float64            // lower bound of the first bin, above 0
	weight map[uint16]float64 // weight of each bin that is not empty; a map, because there can be many Bins with few values
	total  float64
	peak   float64
}

// Add adds a value, which must not be negative, with a weight.
func (b *Bins) Add(value, weight float64) {
	at := 0
	if value >= b.Least {
		at = min(1+int(math.Log(value/b.Least)*binsPerE), maxBin)
	}
	if b.weight == nil {
		b.weight = map[uint16]float64{}
	}
	b.weight[uint16(at)] += weight
	b.total += weight
	b.peak = max(b.peak, value)
}

// Quantile returns the smallest value v, within one percent, for which values up to v have at least the given share of the weight. If v is
// below Least, Quantile returns 0.
func (b *Bins) Quantile(share float64) float64 {
	remaining := share * b.total
	for _, at := range slices.Sorted(maps.Keys(b.weight)) {
		if remaining -= b.weight[at]; remaining > 0 {
			continue
		}
		if at == 0 {
			return 0
		}
		return min(b.Least*math.Exp(float64(at)/binsPerE), b.peak)
	}
	return b.peak
}

// Peak returns the highest value; 0 without values.
func (b *Bins) Peak() float64 { return b.peak }
