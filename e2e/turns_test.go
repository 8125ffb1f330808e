package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A measurable is a case that is measured several times. Each measurement gives an R.
type measurable[R any] interface {
	fmt.Stringer
	isAlways() bool // measured also where there is no time for many rounds
	measure(t *testing.T) R
	judge(t *testing.T, table *strings.Builder, got []R) (wrong []string)
}

// inTurns measures the cases in interleaved rounds, either all cases or only those that are always measured.
// It judges the results and returns the table of the judgments. If all is false and the first round passes with the
// tolerance for several rounds, inTurns does not measure further rounds.
func inTurns[M measurable[R], R any](t *testing.T, of []M, rounds int, all bool) (table *strings.Builder) {
	t.Helper()
	results := make([][]R, len(of))
	for round := range rounds {
		if round == 1 && !all && isConvincing(t, of, results) {
			break
		}
		for i, m := range of {
			if m.isAlways() || all {
				t.Run(m.String(), func(t *testing.T) { results[i] = append(results[i], m.measure(t)) })
			}
		}
	}
	table = &strings.Builder{}
	measured := !t.Failed()
	for i, m := range of {
		if len(results[i]) > 0 && measured {
			for _, wrong := range m.judge(t, table, results[i]) {
				t.Error(wrong)
			}
		}
	}
	return table
}

// isConvincing reports whether the single result of each measured case would also pass as the result of several rounds.
func isConvincing[M measurable[R], R any](t *testing.T, of []M, results [][]R) bool {
	t.Helper()
	for i, m := range of {
		if len(results[i]) > 0 && len(m.judge(t, &strings.Builder{}, slices.Repeat(results[i], 3))) > 0 {
			return false
		}
	}
	return !t.Failed()
}
