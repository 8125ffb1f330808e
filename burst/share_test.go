package burst

import (
	"testing"

	"pgregory.net/rapid"
)

// TestShares: the shares add up to the available time. A group without demand gets nothing, and the others share by
// their limits.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.Float64Range(1, 256).Draw(t, "cpus")
		idle := rapid.Float64Range(0, 1).Draw(t, "idle") * cpus
		members := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Member {
			return Member{rapid.Float64Range(0.01, 64).Draw(t, "limit"), rapid.Float64Range(0, 4).Draw(t, "over"), rapid.Bool().Draw(t, "wants")}
		}), 1, 10).Draw(t, "members")
		shares := Shares(cpus, idle, members)
		var sum, over, each float64
		for i, m := range members {
			sum, over = sum+shares[i], over+m.Overuse
			switch {
			case shares[i] < 0 || !m.NeedsHeadroom && shares[i] != 0:
				t.Fatalf("%+v: %v", m, shares[i])
			case m.NeedsHeadroom && each == 0:
				each = shares[i] / m.Limit
			case m.NeedsHeadroom && (shares[i] < each*m.Limit*(1-1e-9) || shares[i] > each*m.Limit*(1+1e-9)):
				t.Fatalf("not by their limits: %v of %+v", shares, members)
			}
		}
		if sum > over+max(idle-reserveShare*cpus, 0)+1e-9 {
			t.Fatalf("shares sum to %v: idle %v of %v CPUs, used beyond the limits %v", sum, idle, cpus, over)
		}
	})
}

// TestSharesShrinkWhenBusy: if other groups become busy, groups that used their idle time return half of it
// at each tick.
func TestSharesShrinkWhenBusy(t *testing.T) {
	members := []Member{{1, 0.5, true}, {3, 1.5, true}, {2, 0, false}}
	for _, c := range []struct{ idle, first, second float64 }{
		{2.4, 1, 3}, // 0.4 stay idle
		{0.4, 0.5, 1.5},
		{0.2, 0.375, 1.125},
		{0, 0.25, 0.75},
	} {
		if got := Shares(8, c.idle, members); abs(got[0]-c.first) > 1e-9 || abs(got[1]-c.second) > 1e-9 || got[2] != 0 {
			t.Errorf("%v of 8 CPUs idle: %v", c.idle, got)
		}
	}
}

func abs(x float64) float64 { return max(x, -x) }
