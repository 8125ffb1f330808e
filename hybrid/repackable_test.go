package hybrid

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The largest fraction with which the bins suffice is found as by trying fractions one after the other, however it is looked for.
func TestPackable(t *testing.T) {
	part := rapid.OneOf(rapid.Int16Range(1, 999), rapid.SampledFrom([]int16{100, 250, 499, 500, 501, 750, 999}))
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, boundItems).Draw(t, "count")
		parts := rapid.SliceOfN(part, count, count).Draw(t, "parts")
		slices.Sort(parts)
		var items itemList
		for _, part := range parts {
			items.insert(int32(part))
		}
		bins, low, high := items.bins(), int32(0), int32(1000)
		for high-low > packSteps {
			with, middle := items, (low+high)/2
			if with.insert(middle); with.bins() <= bins {
				low = middle
			} else {
				high = middle
			}
		}
		if gotBins, got := packable(parts); gotBins != bins || got != high-1 {
			t.Errorf("%v: %d bins and %dm, want %d and %dm", parts, gotBins, got, bins, high-1)
		}
	})
}
