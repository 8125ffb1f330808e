package experiment

import (
	"math"
	"slices"
	"sort"
)

// The test, the interval and the estimate of this file use the same sorted list: the averages of all pairs of differences (Walsh averages),
// including each difference with itself. n differences have n(n+1)/2 averages.
//
//	test       number of averages above the margin, which is Wilcoxon's sum of the positive ranks
//	interval   the margins that the test does not reject
//	estimate   the median of the averages (Hodges and Lehmann, "Estimates of location based on rank tests", 1963)
//
// Therefore the 95 % interval excludes a margin if the two-sided test rejects this margin at 5 %, and contains the margin otherwise.
//
// gonum/stat and golang.org/x/perf/benchmath have tests of independent samples, such as Mann-Whitney's, but no
// signed-rank test of pairs.

// maxExactPairs is the largest number of pairs for which rankSumTail counts the distribution of rank sums. A float64
// counts 2^52 sign patterns without error.
const maxExactPairs = 52

// SignedRank performs Wilcoxon's signed-rank test of paired differences. It returns the one-sided p-value of the hypothesis that the
// differences are symmetric about the margin: the probability that at least as many averages lie above the margin as for the given
// differences. Averages that equal the margin count as averages below it, so that ties make the test more conservative. Up to 52
// differences the p-value is exact for differences without ties. For more differences it uses the normal approximation with a
// continuity correction. It returns 1 without differences.
func SignedRank(differences []float64, margin float64) float64 {
	sorted := slices.Sorted(slices.Values(differences))
	return rankSumTail(len(sorted), averages(len(sorted))-averagesUpTo(sorted, margin))
}

// TwoSided returns the two-sided p-value of the hypothesis that paired differences are symmetric about 0.
func TwoSided(differences []float64) float64 {
	return min(2*min(SignedRank(differences, 0), SignedRank(negate(differences), 0)), 1)
}

// PairedInterval returns the confidence interval of the typical difference: all margins that the two-sided test does not reject at the
// level 1-confidence. The second result is false if there are too few differences for this confidence. A confidence of 95 % needs
// six differences.
func PairedInterval(differences []float64, confidence float64) (Interval, bool) {
	n := len(differences)
	all := averages(n)
	// The interval excludes this number of averages at each end of the sorted list of averages.
	outside := sort.Search(all/2+1, func(k int) bool { return 2*rankSumTail(n, all-k) > 1-confidence }) - 1
	if outside < 0 {
		return Interval{}, false
	}
	sorted := slices.Sorted(slices.Values(differences))
	return Interval{averageAt(sorted, outside+1), averageAt(sorted, all-outside)}, true
}

// LowerBound returns the one-sided lower confidence bound of the typical difference: SignedRank rejects at the level exactly the margins
// below the bound. The second result is false if there are too few differences for this level.
func LowerBound(differences []float64, level float64) (float64, bool) {
	n := len(differences)
	all := averages(n)
	above := sort.Search(all+1, func(k int) bool { return rankSumTail(n, k) <= level }) // that SignedRank needs above a margin
	if above > all {
		return 0, false
	}
	return averageAt(slices.Sorted(slices.Values(differences)), all-above+1), true
}

// HodgesLehmann returns the typical difference: the median of the averages of all pairs of differences. It always is
// in the interval of PairedInterval. It returns 0 without differences.
func HodgesLehmann(differences []float64) float64 {
	all := averages(len(differences))
	if all == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(differences))
	return (averageAt(sorted, (all+1)/2) + averageAt(sorted, all/2+1)) / 2
}

// averages returns the number of averages of n differences: the means of all pairs of differences, including each difference
// paired with itself (Walsh averages).
func averages(n int) int { return n * (n + 1) / 2 }

// averagesUpTo returns the number of averages that are at most v. Its time is linear in the number of differences.
func averagesUpTo(sorted []float64, v float64) (count int) {
	last := len(sorted) - 1
	for first := range sorted {
		for last >= first && sorted[first]+sorted[last] > 2*v {
			last--
		}
		if last < first {
			return count
		}
		count += last - first + 1
	}
	return count
}

// averageAt returns the k-th smallest average, k from 1. It bisects the floating-point numbers, because the averages
// of the largest experiment do not fit into memory. The result is exact.
func averageAt(sorted []float64, k int) float64 {
	low, high := toOrder(sorted[0]), toOrder(sorted[len(sorted)-1])
	for low < high {
		if middle := low + (high-low)/2; averagesUpTo(sorted, fromOrder(middle)) >= k {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return fromOrder(low)
}

// toOrder maps floating-point numbers to whole numbers in the same order.
func toOrder(v float64) uint64 {
	bits := math.Float64bits(v)
	if bits>>63 == 0 {
		return bits | 1<<63
	}
	return ^bits
}

// fromOrder inverts toOrder.
func fromOrder(n uint64) float64 {
	if n>>63 == 1 {
		return math.Float64frombits(n &^ (1 << 63))
	}
	return math.Float64frombits(^n)
}

// rankSumTail returns the probability that the positive ranks of n differences with random signs have at least the
// given sum.
func rankSumTail(n, sum int) float64 {
	if n > maxExactPairs {
		return normalTail(n, sum)
	}
	patterns := make([]float64, averages(n)+1) // number of sign patterns by sum
	patterns[0] = 1
	reached := 0
	for rank := 1; rank <= n; rank++ {
		for s := reached; s >= 0; s-- {
			patterns[s+rank] += patterns[s]
		}
		reached += rank
	}
	tail := 0.0
	for s := max(sum, 0); s <= reached; s++ {
		tail += patterns[s]
	}
	return tail / math.Exp2(float64(n))
}

// normalTail approximates rankSumTail for many differences.
func normalTail(n, sum int) float64 {
	mean, variance := float64(averages(n))/2, float64(n)*float64(n+1)*float64(2*n+1)/24
	return math.Erfc((float64(sum)-0.5-mean)/math.Sqrt(2*variance)) / 2 // 0.5: continuity correction
}
