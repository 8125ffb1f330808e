package fleet

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Nodes of different sizes with the same free share have equal values, and a larger share has a larger value.
func TestWeigher(t *testing.T) {
	exact := 0
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.Int64Range(1, 12).Draw(rt, "parts")
		free := rapid.SliceOfN(rapid.Int64Range(0, parts), 3, 3).Draw(rt, "free parts")
		size := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1<<40))
		want := new(big.Int).Lsh(big.NewInt(free[0]+free[1]+free[2]), shareBits)
		want.Div(want, big.NewInt(3*parts))
		for range 2 {
			part := [3]int64{1000 * rapid.Int64Range(1, 80).Draw(rt, "CPUs"), size.Draw(rt, "memory"), size.Draw(rt, "disk")}
			w := newWeigher(parts*part[0], []int64{parts * part[1], 0, parts * part[2]})
			share := w.share(w.weigh(free[0]*part[0], []int64{free[1] * part[1], 0, free[2] * part[2]}))
			sizes := parts * (part[0] + part[1] + part[2])
			if w.weights[0]*parts*part[1] != w.whole/3 || w.weights[2]*parts*part[2] != w.whole/3 || w.cpu*parts*part[0] != w.whole/3 { // the sizes have too large a common multiple
				if off := want.Int64() - int64(share); off < 0 || off > 1+sizes>>6 {
					rt.Fatalf("%d parts of %d are %d, want about %d", free, parts, share, want)
				}
				continue
			}
			exact++
			if share != want.Uint64() {
				rt.Fatalf("%d parts of %d are %d, want %d", free, parts, share, want)
			}
		}
	})
	if exact == 0 {
		t.Error("the share was never exact")
	}
}
