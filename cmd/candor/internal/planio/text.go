package planio

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
)

// Lines says in words what became of an operation: the first line is the
// outcome, the others are the plan's explanation or, without one, what changes
// for others.
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

// words says what a grant is.
func (g *Grant) words() string {
	words := cpuWords(g.CPUs, &g.Exclusive, g.Fractions)
	if g.Quota == 0 {
		return words + "; no quota"
	}
	return words + fmt.Sprintf("; quota %dm", g.Quota)
}

// words says what another container has now.
func (c *Change) words() string {
	words := fmt.Sprintf("%s now has %s", cpumap.Clean(c.ID), cpuWords(c.CPUs, c.Exclusive, c.Fractions))
	if c.before != c.CPUs {
		words += fmt.Sprintf(" (before: %v)", c.before)
	}
	return words
}

// cpuWords says which CPUs a container has, and which parts of them.
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
