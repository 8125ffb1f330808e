package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A measurable is a case that is measured several times. Each measurement gives an R.
type measurable[R any] interface {
	fmt.Stringer
	isAlways() bool // measured also where there is no time for many rounds
	measure(t *testing.T) R
	judge(t *testing.T, table *strings.Builder, got []R)
}

// inTurns measures the cases in interleaved rounds, either all cases or only those that are always measured.
// It judges the results and returns the table of the judgments.
func inTurns[M measurable[R], R any](t *testing.T, of []M, rounds int, all bool) (table *strings.Builder) {
	t.Helper()
	results := make([][]R, len(of))
	for range rounds {
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
			m.judge(t, table, results[i])
		}
	}
	return table
}
