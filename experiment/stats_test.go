package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
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

// TestIntervalAgreesWithTest: the 95 % interval excludes a margin exactly if the two-sided test rejects the margin at
// 5 %, also for differences with ties and zeros, and contains the estimate. Before, a report could have an interval
// of 1.001 to 1.263 with p = 0.11.
func TestIntervalAgreesWithTest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		whole := rapid.SliceOfN(rapid.IntRange(-6, 9), 1, 70).Draw(rt, "differences")
		scale := rapid.SampledFrom([]float64{1, 0.1, 1e-9}).Draw(rt, "scale")
		differences := make([]float64, len(whole))
		for i, d := range whole {
			differences[i] = float64(d) * scale
		}
		p := TwoSided(differences)
		i, ok := PairedInterval(differences, 0.95)
		if ok != (len(differences) >= 6) {
			rt.Fatalf("%d differences: interval %v", len(differences), ok)
		}
		if !ok {
			if p <= 0.05 {
				rt.Fatalf("%v: p = %g without an interval", differences, p)
			}
			return
		}
		if excludes := i.Low > 0 || i.High < 0; excludes != (p <= 1-0.95) {
			rt.Fatalf("%v: interval %+v, p = %g", differences, i, p)
		}
		if e := HodgesLehmann(differences); e < i.Low || e > i.High {
			rt.Fatalf("%v: estimate %g outside of %+v", differences, e, i)
		}
	})
}

// TestAverages compares averageAt and averagesUpTo with the sorted list of all averages.
func TestAverages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sorted := rapid.SliceOfN(rapid.Float64Range(-1e3, 1e3), 1, 30).Draw(rt, "differences")
		slices.Sort(sorted)
		var all []float64
		for i := range sorted {
			for _, other := range sorted[i:] {
				all = append(all, (sorted[i]+other)/2)
			}
		}
		slices.Sort(all)
		for k, want := range all {
			if got := averageAt(sorted, k+1); got != want {
				rt.Fatalf("average %d: %g, want %g", k+1, got, want)
			}
		}
		v := rapid.SampledFrom(all).Draw(rt, "v")
		if got, want := averagesUpTo(sorted, v), sort.SearchFloat64s(all, math.Nextafter(v, math.Inf(1))); got != want {
			rt.Fatalf("up to %g: %d, want %d", v, got, want)
		}
	})
}

// TestIntervalKnown compares with R: wilcox.test(d, conf.int = TRUE, exact = TRUE).
//
//	d <- c(1.83-0.878, 0.50-0.647, 1.62-0.598, 2.48-2.05, 1.68-1.06, 1.88-1.29, 1.55-1.06, 3.06-3.14, 1.30-1.29)
//	p-value = 0.03906, estimate 0.46, interval 0.010 to 0.786 (Hollander and Wolfe, 1973, depression data)
func TestIntervalKnown(t *testing.T) {
	d := []float64{0.952, -0.147, 1.022, 0.430, 0.620, 0.590, 0.490, -0.080, 0.010}
	i, ok := PairedInterval(d, 0.95)
	near := func(a, b float64) bool { return math.Abs(a-b) < 5e-4 }
	if p := TwoSided(d); !ok || !near(p, 0.0390625) || !near(HodgesLehmann(d), 0.46) || !near(i.Low, 0.01) || !near(i.High, 0.786) {
		t.Errorf("p = %g, estimate %g, interval %+v, %v", p, HodgesLehmann(d), i, ok)
	}
}

// TestRankSumTail: at the largest exact number of pairs, the normal approximation is close to the exact probability.
func TestRankSumTail(t *testing.T) {
	for sum := averages(maxExactPairs) / 2; sum < averages(maxExactPairs); sum += 20 {
		if exact, about := rankSumTail(maxExactPairs, sum), normalTail(maxExactPairs, sum); math.Abs(exact-about) > 0.003 {
			t.Errorf("sum %d: %.5f, the approximation is %.5f", sum, exact, about)
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

// TestPairedIntervalCovers: 90 % to 99 % of the intervals contain the true gain, and no interval is wide.
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
		i, ok := PairedInterval(gains, 0.95)
		if !ok {
			t.Fatal("no interval")
		}
		if i.Low <= gain && gain <= i.High {
			covered++
		}
		if i.High-i.Low > 0.3 {
			wide++
		}
	}
	if share := float64(covered) / experiments; share < 0.9 || share > 0.99 || wide > 0 {
		t.Errorf("%.3f of the intervals contain the gain, %d are wide; want 0.9 to 0.99, and 0", share, wide)
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
