package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestSignedRankTable compares SignedRank with published critical values of the one-sided test (Wilcoxon and
// Wilcox, "Some Rapid Approximate Statistical Procedures", 1964).
func TestSignedRankTable(t *testing.T) {
	for _, test := range []struct {
		pairs, smaller int // smaller is the sum of the ranks of differences below the margin
		level          float64
	}{
		{8, 5, 0.05}, {8, 3, 0.025}, {12, 17, 0.05}, {12, 9, 0.01}, {18, 47, 0.05}, {18, 32, 0.01}, {26, 110, 0.05}, {40, 286, 0.05}, {40, 238, 0.01},
	} {
		if p := SignedRank(differencesWithRankSum(test.pairs, test.smaller), 0); p > test.level {
			t.Errorf("%d pairs, %d below: p = %.4f, want %g at most", test.pairs, test.smaller, p, test.level)
		}
		if p := SignedRank(differencesWithRankSum(test.pairs, test.smaller+1), 0); p <= test.level {
			t.Errorf("%d pairs, %d below: p = %.4f, want more than %g", test.pairs, test.smaller+1, p, test.level)
		}
	}
}

// differencesWithRankSum returns differences with absolute values 1 to n. The ranks of the negative
// differences add up to sum.
func differencesWithRankSum(n, sum int) []float64 {
	differences := make([]float64, n)
	for rank := n; rank >= 1; rank-- {
		differences[rank-1] = float64(rank)
		if rank <= sum {
			differences[rank-1], sum = -float64(rank), sum-rank
		}
	}
	return differences
}

// TestSignedRankExact compares the probability with an enumeration of all sign patterns, with ties and zeros.
func TestSignedRankExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		whole := rapid.SliceOfN(rapid.IntRange(-4, 4), 1, 10).Draw(rt, "differences")
		margin := rapid.IntRange(-1, 1).Draw(rt, "margin")
		var differences, sizes []float64
		for _, d := range whole {
			differences = append(differences, float64(d))
			if d != margin {
				sizes = append(sizes, math.Abs(float64(d-margin)))
			}
		}
		sum := func(above func(i int) bool) (sum float64) {
			for i, size := range sizes {
				if !above(i) {
					continue
				}
				for _, other := range sizes { // adds the mean rank among equal sizes
					if other < size {
						sum++
					} else if other == size {
						sum += 0.5
					}
				}
				sum += 0.5
			}
			return sum
		}
		var signs []bool
		for _, d := range whole {
			if d != margin {
				signs = append(signs, d > margin)
			}
		}
		observed := sum(func(i int) bool { return signs[i] })
		reached := 0
		for pattern := range 1 << len(sizes) {
			if sum(func(i int) bool { return pattern>>i&1 == 1 }) >= observed {
				reached++
			}
		}
		want := float64(reached) / float64(int(1)<<len(sizes))
		if got := SignedRank(differences, float64(margin)); math.Abs(got-want) > 1e-12 {
			rt.Fatalf("%v, margin %d: %g, want %g", whole, margin, got, want)
		}
	})
}

// TestSignedRankManyPairs: at the largest exact number of pairs, the normal approximation is close to the
// exact probability.
func TestSignedRankManyPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		differences := make([]float64, maxExactPairs)
		for i := range differences {
			differences[i] = random.NormFloat64() + 0.2
		}
		ranks, above := doubledRanks(differences), 0
		for i, d := range differences {
			if d > 0 {
				above += ranks[i]
			}
		}
		if exact, about := exactTail(ranks, above), normalTail(ranks, above); math.Abs(exact-about) > 0.003 {
			t.Errorf("%.5f, the approximation is %.5f", exact, about)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{1, 3, 3, 3, 3, 3}},
		{[]float64{4, 2}, Spread{2, 2, 2.5, 3, 3.5, 4}},
		{[]float64{5, 1, 4, 2, 3}, Spread{5, 1, 2, 3, 4, 5}},
	} {
		if got := SpreadOf(test.values); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.values, got, test.want)
		}
	}
}

// TestPairedIntervalCovers: 90 % to 99 % of the intervals contain the true median, and no interval is wide.
func TestPairedIntervalCovers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const experiments, gain = 200, 0.2
	random := rand.New(rand.NewPCG(2, 2))
	covered, wide := 0, 0
	for range experiments {
		gains := make([]float64, 30)
		for i := range gains {
			gains[i] = gain + 0.14*random.NormFloat64()
		}
		i := PairedInterval(gains, 0.95)
		if i.Low <= gain && gain <= i.High {
			covered++
		}
		if i.High-i.Low > 0.3 {
			wide++
		}
		if i != PairedInterval(gains, 0.95) {
			t.Fatal("equal pairs have different intervals")
		}
	}
	if share := float64(covered) / experiments; share < 0.9 || share > 0.99 || wide > 0 {
		t.Errorf("%.3f of the intervals contain the median, %d are wide; want 0.9 to 0.99, and 0", share, wide)
	}
}

func TestCliffsDelta(t *testing.T) {
	for _, test := range []struct {
		a, b []float64
		want float64
	}{
		{nil, []float64{1}, 0},
		{[]float64{2, 3}, []float64{0, 1}, 1},
		{[]float64{0, 1}, []float64{2, 3}, -1},
		{[]float64{1, 2}, []float64{1, 2}, 0},
		{[]float64{1, 2, 3}, []float64{2}, 0},
		{[]float64{2, 2, 3}, []float64{2}, 1.0 / 3},
	} {
		if got := CliffsDelta(test.a, test.b); got != test.want {
			t.Errorf("%v against %v: %g, want %g", test.a, test.b, got, test.want)
		}
	}
}
