package planio

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
)

// Lines describes the result of an operation: the first line is the outcome, the others are the plan's explanation or, without
// an explanation, the changes of other containers.
func (r *Result) Lines() []string {
	what := fmt.Sprintf("%s %s", r.Op, cpumap.Clean(r.ID))
	if !r.OK {
		return []string{fmt.Sprintf("%s: refused, %s: %s", what, r.Error, cpumap.Clean(r.Reason))}
	}
	lines := []string{what}
	if r.Grant != nil {
		lines[0] += ": " + r.Grant.words()
	}
	for _, s := range r.Explain {
		lines = append(lines, cpumap.Clean(s.Text))
	}
	if r.Explain != nil {
		return lines
	}
	for _, c := range r.Changes {
		lines = append(lines, c.words())
	}
	return lines
}

// words describes a grant.
func (g *Grant) words() string {
	words := cpuWords(g.CPUs, &g.Exclusive, g.Fractions)
	if g.Quota == 0 {
		return words + "; no quota"
	}
	return words + fmt.Sprintf("; quota %dm", g.Quota)
}

// words describes the CPUs of another container after the operation.
func (c *Change) words() string {
	words := fmt.Sprintf("%s now has %s", cpumap.Clean(c.ID), cpuWords(c.CPUs, c.Exclusive, c.Fractions))
	if c.before != c.CPUs {
		words += fmt.Sprintf(" (before: %v)", c.before)
	}
	return words
}

// cpuWords describes the CPUs and fractions of a container.
func cpuWords(cpus cpuset.Set, exclusive *cpuset.Set, fractions Fractions) string {
	if fractions == nil {
		return "shared " + cputext.CPUs(cpus)
	}
	var words []string
	if !exclusive.IsEmpty() {
		words = append(words, cputext.CPUs(*exclusive)+" to itself")
	}
	for _, f := range fractions {
		words = append(words, fmt.Sprintf("%dm of CPU %d", f.Milli, f.CPU))
	}
	return strings.Join(words, ", ")
}
