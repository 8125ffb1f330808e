package fleet

import (
	"testing"

	"pgregory.net/rapid"
)

// The functions for packed words give the same result as a comparison of each lane.
func TestPackedLanes(t *testing.T) {
	lane := rapid.OneOf(rapid.Uint16(), rapid.SampledFrom([]uint16{0, 1, 1<<15 - 1, 1 << 15, 1<<15 + 1, maxFeature}))
	rapid.Check(t, func(t *rapid.T) {
		var a, b, atLeast, equal, most uint64
		for i := range lanes {
			x := lane.Draw(t, "a")
			y := rapid.OneOf(lane, rapid.Just(x)).Draw(t, "b")
			shift := i * laneBits
			a, b, most = a|uint64(x)<<shift, b|uint64(y)<<shift, most|uint64(max(x, y))<<shift
			if x >= y {
				atLeast |= 1 << (shift + laneBits - 1)
			}
			if x == y {
				equal |= 1 << (shift + laneBits - 1)
			}
		}
		if got := lanesAtLeast(a, b); got != atLeast {
			t.Errorf("%016x at least %016x: %016x, want %016x", a, b, got, atLeast)
		}
		if got := lanesEqual(a, b); got != equal {
			t.Errorf("%016x equals %016x: %016x, want %016x", a, b, got, equal)
		}
		if got := lanesMax(a, b); got != most {
			t.Errorf("the most of %016x and %016x: %016x, want %016x", a, b, got, most)
		}
	})
}
