package cpumap

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/seencpus"
)

// A Foreign is a running container that Candor does not manage.
type Foreign struct {
	Name string `json:"name"` // display name
	podname.Parts
	ID               string       `json:"id"`
	Runtime          string       `json:"runtime,omitempty"` // absent if it is unknown
	Group            string       `json:"group"`             // path of the cgroup
	Limit            hybrid.Milli `json:"limitMilli"`        // 0: no limit
	CPUs             cpuset.Set   `json:"cpus"`
	seencpus.Summary              // CPUs that the container sees
}

// sees returns the CPU counts that a container sees. For a container that is missing from SeenCPUs, such as a planned container,
// it returns the counts of the class's default view. In a flexible container, the files then show all online CPUs.
func (m *Map) sees(g *hybrid.Grant) seencpus.Summary {
	if s, isKnown := m.SeenCPUs[g.ID]; isKnown {
		return s
	}
	s := seencpus.Summary{Affinity: g.CPUs.Count(), Files: g.CPUs.Count()}
	if g.Class == hybrid.Flexible {
		s.Files = m.Machine.Online.Count()
	}
	return s
}

const (
	maxNotes   = 10 // notes below the list of containers
	maxForeign = 20 // foreign containers in the list
)

// seenSums returns an explanation of a difference between affinity and files, and the notes on the containers.
func (m *Map) seenSums() (sums []string) {
	notes := 0
	for i := range m.Grants {
		g := &m.Grants[i]
		s := m.sees(g)
		if len(sums) == 0 && s.Affinity != s.Files && s.Affinity > 0 && s.Files > 0 {
			sums = append(sums, fmt.Sprintf("SEES %s: %d by the affinity, %d in /proc/cpuinfo and /sys.", s, s.Affinity, s.Files))
		}
		if s.Note == "" {
			continue
		}
		if notes++; notes <= maxNotes {
			sums = append(sums, fmt.Sprintf("%s sees %s: %s.", m.Name(g.ID), s, Clean(s.Note)))
		}
	}
	if more := notes - maxNotes; more > 0 {
		sums = append(sums, moreNotes(more))
	}
	return sums
}

// moreNotes returns the sentence for the notes beyond maxNotes.
func moreNotes(n int) string {
	if n == 1 {
		return "1 more container has a note: candor inspect shows it."
	}
	return fmt.Sprintf("%d more containers have a note: candor inspect shows it.", n)
}

// foreignHeading introduces the list of foreign containers.
const foreignHeading = "Foreign containers, which Candor does not manage (candor audit compares them with their limits):"

// foreign lists the foreign containers.
func (m *Map) foreign(c *canvas, columns int) {
	if len(m.Foreign) == 0 {
		return
	}
	c.newline()
	c.padTo(1)
	c.wrap(style{dim: true}, strings.SplitAfter(foreignHeading, " "), columns)
	c.newline()
	listed := m.Foreign[:min(len(m.Foreign), maxForeign)]
	names, width := make([]string, len(listed)), len("NAME")
	for i := range listed {
		names[i] = Shorten(Clean(listed[i].Name), nameColumns(columns))
		width = max(width, Width(names[i]))
	}
	c.newline()
	c.put(style{dim: true}, fmt.Sprintf("   %-*s  %-10s  %6s  %5s  %s", width, "NAME", "RUNTIME", "LIMIT", "SEES", "CPUS"))
	c.newline()
	for i := range listed {
		f := &listed[i]
		runtime, limit := f.Runtime, "none"
		if runtime == "" {
			runtime = "-"
		}
		if f.Limit > 0 {
			limit = f.Limit.String()
		}
		c.put(style{}, "   "+names[i])
		c.padTo(3 + width)
		c.put(style{}, fmt.Sprintf("  %-10s  %6s  %5s  ", runtime, limit, f.Summary))
		c.wrap(style{}, list(f.CPUs), columns)
		c.newline()
	}
	if more := len(m.Foreign) - len(listed); more > 0 {
		c.put(style{dim: true}, fmt.Sprintf("   and %d more: candor audit --all", more))
		c.newline()
	}
}

// foreignSum returns a sentence with the names of the foreign containers; "" if there are none.
func (m *Map) foreignSum() string {
	if len(m.Foreign) == 0 {
		return ""
	}
	var names []string
	for i := range m.Foreign[:min(len(m.Foreign), maxForeign)] {
		names = append(names, Clean(m.Foreign[i].Name))
	}
	return fmt.Sprintf("Foreign containers (%d, see candor audit): %s", len(m.Foreign), strings.Join(names, ", "))
}
