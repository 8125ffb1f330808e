package experiment

import (
	"cmp"
	"math"
	"slices"
)

// mostPairs is the largest experiment of which the distribution of ranks is counted exactly: 2^52 sign
// patterns are what a float64 counts without error.
const mostPairs = 52

// SignedRank is Wilcoxon's signed-rank test of paired differences, one-sided: the probability that differences
// which are as likely above as below the margin (and symmetric about it) have as large a sum of ranks above it.
// The distribution is exact, also with ties, which share their mean rank (the permutation
// distribution given the ranks; Pratt, "Remarks on Zeros and Ties in the Wilcoxon Signed Rank
// Procedures", JASA 1959, for the rest). Differences that equal the margin say nothing and are left out. More than
// 52 differences are taken by the normal approximation with a correction for continuity.
func SignedRank(differences []float64, margin float64) float64 {
	from := make([]float64, 0, len(differences))
	for _, d := range differences {
		if d != margin {
			from = append(from, d-margin)
		}
	}
	if len(from) == 0 {
		return 1
	}
	ranks := doubledRanks(from)
	above := 0
	for i, d := range from {
		if d > 0 {
			above += ranks[i]
		}
	}
	if len(from) > mostPairs {
		return normalTail(ranks, above)
	}
	return exactTail(ranks, above)
}

// doubledRanks returns twice the rank of each value's size: whole numbers, also where values share a mean rank.
func doubledRanks(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	size := func(i int) float64 { return math.Abs(values[i]) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(a), size(b)) })
	ranks := make([]int, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && size(order[to]) == size(order[from]) {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to
		}
		from = to
	}
	return ranks
}

// exactTail returns the share of all patterns of signs whose positive ranks have at least a sum.
func exactTail(ranks []int, sum int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	patterns := make([]float64, total+1) // by sum
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

// normalTail is exactTail of many ranks, about.
func normalTail(ranks []int, sum int) float64 {
	mean, variance := 0.0, 0.0
	for _, r := range ranks {
		mean += float64(r) / 2
		variance += float64(r*r) / 4
	}
	return math.Erfc((float64(sum)-1-mean)/math.Sqrt(2*variance)) / 2 // doubled ranks: half a rank is 1
}
