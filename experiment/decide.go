package experiment

import "slices"

// A Verdict states whether a workload gains by a view that equals its limit.
type Verdict string

// The verdicts of Decide.
const (
	Sensitive Verdict = "sensitive" // the gain exceeds the margin
	Flexible  Verdict = "flexible"  // the gain is below the margin, or there is a loss
	Undecided Verdict = "undecided" // the runs are not sufficient for a verdict
)

// Looks are the numbers of pairs after which Decide tests the gains.
var Looks = []int{8, 12, 18, 26, 40}

// Level is the one-sided significance level of each test, after Pocock ("Group sequential methods in the design and
// analysis of clinical trials", Biometrika 1977). If the true gain equals the margin, each of the two errors (a wrong
// Sensitive, a wrong Flexible) happens in about 5 % of the experiments; TestErrorRates measures this.
const Level = 0.0158

// Decide tests gains after each number of pairs in Looks. Gains are the logarithms of the ratios of paired runs without
// and with the view; above 0, the view helps. Decide returns the first verdict that the pairs allow, and the number of
// pairs that it used. more reports whether further pairs can lead to a verdict.
func Decide(gains []float64, margin float64) (verdict Verdict, pairs int, more bool) {
	for _, look := range Looks {
		if look > len(gains) {
			return Undecided, len(gains), true
		}
		seen := gains[:look]
		if SignedRank(seen, margin) <= Level {
			return Sensitive, look, false
		}
		if SignedRank(negate(seen), -margin) <= Level {
			return Flexible, look, false
		}
	}
	return Undecided, Looks[len(Looks)-1], false
}

func negate(values []float64) []float64 {
	out := slices.Clone(values)
	for i := range out {
		out[i] = -out[i]
	}
	return out
}
