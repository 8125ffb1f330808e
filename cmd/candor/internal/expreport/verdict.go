package expreport

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/interference"
)

// warnings returns a line if other processes used the CPUs of a measurement, which makes its results less certain.
func warnings(i *interference.Report) []string {
	if i == nil {
		return nil
	}
	return []string{i.Warning()}
}

// verdicts returns a sentence for each setup except the first, after a warning about other processes.
func (r Report) verdicts() []string {
	lines := warnings(r.Interference)
	metric := r.Metrics[len(r.Metrics)-1]
	for _, c := range r.Conclusions() {
		lines = append(lines, verdict(&c, metric))
	}
	return lines
}

// verdict returns the sentence on a setup.
func verdict(c *experiment.Conclusion, m experiment.ReportMetric) string {
	if c.Finding == experiment.NotMeasured {
		return fmt.Sprintf("%v against %v: %s with both; a verdict needs %d", c.Setup, c.Baseline, rounds(c.Pairs), experiment.MinPairs)
	}
	// The factor is above 1 if the setup has the higher speed or the better value.
	factor, low, high := c.Gain, c.Interval.Low, c.Interval.High
	sure := func() string {
		return fmt.Sprintf("95 %% interval %s to %s, p %s, %s", times(low), times(high), probability(c.P), rounds(c.Pairs))
	}
	isTime := m.Name == experiment.WallTime.Name
	switch {
	case c.Finding == experiment.NoDifference && isTime:
		return fmt.Sprintf("%v: no difference from %v found: %s times as fast (%s)", c.Setup, c.Baseline, times(factor), sure())
	case c.Finding == experiment.NoDifference:
		return fmt.Sprintf("%v: no difference from %v in %s found: improvement by the factor %s (%s)", c.Setup, c.Baseline, m.Name, times(factor), sure())
	case c.Finding == experiment.Better && isTime:
		return fmt.Sprintf("%v is faster than %v: %s times as fast (%s)", c.Setup, c.Baseline, times(factor), sure())
	case isTime:
		factor, low, high = 1/factor, 1/high, 1/low
		return fmt.Sprintf("%v is slower than %v: it takes %s times as long (%s)", c.Setup, c.Baseline, times(factor), sure())
	default:
		return fmt.Sprintf("%v has %s %s than %v: improvement by the factor %s (%s)", c.Setup, c.Finding, m.Name, c.Baseline, times(factor), sure())
	}
}

func rounds(n int) string { return cputext.Count(n, "round") }

// times formats a factor with two decimals, or with three if two would show 1.00.
func times(v float64) string {
	if text := strconv.FormatFloat(v, 'f', 2, 64); text != "1.00" {
		return text
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// verdicts returns a sentence for each case, the best case first, after a warning about other processes.
func (r Isolation) verdicts() []string {
	lines := warnings(r.Interference)
	all := r.Conclusions()
	slices.SortStableFunc(all, func(a, b experiment.IsolationConclusion) int {
		return cmp.Or(cmp.Compare(len(a.Leaks), len(b.Leaks)), cmp.Compare(len(b.Isolated), len(a.Isolated)), cmp.Compare(a.Mean, b.Mean))
	})
	for i := range all {
		lines = append(lines, isolationVerdict(&all[i]))
	}
	return lines
}

// isolationVerdict returns the sentence on a case.
func isolationVerdict(c *experiment.IsolationConclusion) string {
	if c.Worst == nil {
		return fmt.Sprintf("%s: no verdict, because no run has a result", c.Case)
	}
	parts := []string{fmt.Sprintf("isolates from %d of %d stressors", len(c.Isolated), len(c.Isolated)+len(c.Leaks)+len(c.Uncertain))}
	if len(c.Leaks) > 0 {
		parts = append(parts, "leaks beside "+strings.Join(c.Leaks, ", "))
	}
	if len(c.Uncertain) > 0 {
		parts = append(parts, "uncertain beside "+strings.Join(c.Uncertain, ", "))
	}
	worst := times(c.Worst.Ratio)
	if b := bounds(c.Worst.Bounds, times); b != "" {
		worst += " (bounds: " + b + ")"
	}
	return fmt.Sprintf("%s: %s; slowdown %s on average, at worst %s for %s beside %s", c.Case, strings.Join(parts, "; "), times(c.Mean),
		worst, c.Worst.Application, c.Worst.Stressor)
}
