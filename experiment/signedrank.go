package experiment

import (
	"cmp"
	"math"
	"slices"
)

// maxExactPairs is the largest number of pairs for which SignedRank counts all sign patterns (exactTail). A float64
// counts 2^52 patterns without error.
const maxExactPairs = 52

// gonum/stat and golang.org/x/perf/benchmath have tests of independent samples, such as Mann-Whitney's, but no signed-rank test of
// pairs.

// SignedRank performs Wilcoxon's signed-rank test of paired differences. It returns the one-sided p-value of the
// hypothesis that the differences are symmetric about the margin: the probability that the ranks of the differences
// above the margin have at least the observed sum.
//
// The test omits differences that equal the margin before it ranks the others, as Wilcoxon does. Ties share their mean
// rank. Up to 52 differences the p-value is exact: the share of the sign patterns of these ranks with at least the
// observed sum. For more differences it uses the normal approximation with a continuity correction.
func SignedRank(differences []float64, margin float64) float64 {
	shifted := make([]float64, 0, len(differences))
	for _, d := range differences {
		if d != margin {
			shifted = append(shifted, d-margin)
		}
	}
	if len(shifted) == 0 {
		return 1
	}
	ranks := doubledRanks(shifted)
	above := 0
	for i, d := range shifted {
		if d > 0 {
			above += ranks[i]
		}
	}
	if len(shifted) > maxExactPairs {
		return normalTail(ranks, above)
	}
	return exactTail(ranks, above)
}

// doubledRanks ranks the values by their absolute values, and returns twice the rank of each value. The doubled ranks
// are whole numbers even if values share a mean rank.
func doubledRanks(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	size := func(i int) float64 { return math.Abs(values[i]) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(a), size(b)) })
	ranks := make([]int, len(values))
	for first := 0; first < len(order); {
		next := first + 1
		for next < len(order) && size(order[next]) == size(order[first]) {
			next++
		}
		for _, i := range order[first:next] {
			ranks[i] = first + 1 + next
		}
		first = next
	}
	return ranks
}

// exactTail returns the share of all sign patterns whose positive ranks have at least the given sum.
func exactTail(ranks []int, sum int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	patterns := make([]float64, total+1) // number of patterns by sum
	patterns[0] = 1
	reached := 0
	for _, r := range ranks {
		for s := reached; s >= 0; s-- {
			patterns[s+r] += patterns[s]
		}
		reached += r
	}
	tail := 0.0
	for s := sum; s <= total; s++ {
		tail += patterns[s]
	}
	return tail / math.Exp2(float64(len(ranks)))
}

// normalTail approximates exactTail for many ranks.
func normalTail(ranks []int, sum int) float64 {
	mean, variance := 0.0, 0.0
	for _, r := range ranks {
		mean += float64(r) / 2
		variance += float64(r*r) / 4
	}
	return math.Erfc((float64(sum)-1-mean)/math.Sqrt(2*variance)) / 2 // continuity correction: half a rank is 1, because ranks are doubled
}
