package experiment

import "slices"

// A Verdict says whether a workload gains by a view that equals its limit.
type Verdict string

const (
	Sensitive Verdict = "sensitive" // it gains more than the margin
	Flexible  Verdict = "flexible"  // it gains less than the margin, nothing, or loses
	Undecided Verdict = "undecided" // the runs do not tell
)

// Looks are the numbers of pairs after which a decision is tried, and Level is the one-sided level of each try, after
// Pocock ("Group sequential methods in the design and analysis of clinical trials", Biometrika 1977). Either of the two errors
// at the margin itself then happens in about 5 % of the experiments, as TestErrorRates counts.
var Looks = []int{8, 12, 18, 26, 40}

const Level = 0.0158

// Decide looks at gains, the logarithms of the ratios of paired runs without and with the view (above 0: the view
// helps), after each number of pairs in Looks that there are. It returns the first verdict that the pairs allow, and how many
// of them it took. more reports whether further pairs could decide what these do not.
func Decide(gains []float64, margin float64) (verdict Verdict, pairs int, more bool) {
	for _, look := range Looks {
		if look > len(gains) {
			return Undecided, len(gains), true
		}
		seen := gains[:look]
		if SignedRank(seen, margin) <= Level {
			return Sensitive, look, false
		}
		if SignedRank(negated(seen), -margin) <= Level {
			return Flexible, look, false
		}
	}
	return Undecided, Looks[len(Looks)-1], false
}

func negated(values []float64) []float64 {
	out := slices.Clone(values)
	for i := range out {
		out[i] = -out[i]
	}
	return out
}
