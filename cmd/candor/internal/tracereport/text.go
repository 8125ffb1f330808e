// Package tracereport formats summaries of cluster traces for the candor command, as text (Text) and as a picture
// (SVG). It shows several traces side by side. It does not read traces.
package tracereport

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/trace"
)

// A row is a row of the table. value returns the cell for a trace.
type row struct {
	label string
	value func(*trace.Summary) string
}

// Text writes a table with a column for each trace, and the load over time below. If the table is wider than the terminal, it writes
// a table for each trace, one below the other. width is the width of the terminal; 0: unlimited. If ascii is true, Text uses only ASCII
// characters.
func Text(w io.Writer, summaries []*trace.Summary, width int, ascii bool) error {
	names := titles(summaries)
	text := tableText(names, summaries, false)
	if width > 0 && len(summaries) > 1 && widest(text) > width {
		var tables []string
		for i, s := range summaries {
			tables = append(tables, tableText(names[i:i+1], []*trace.Summary{s}, true))
		}
		text = strings.Join(tables, "\n")
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	for i, s := range summaries {
		if err := writeLoad(w, names[i], s.Load, ascii); err != nil {
			return err
		}
	}
	for i := range summaries {
		if err := writeReport(w, names[i], &summaries[i].Report); err != nil {
			return err
		}
	}
	return nil
}

// tableText returns a table with a column for each trace. If isNarrow is true, the labels of the rows are short.
func tableText(names []string, summaries []*trace.Summary, isNarrow bool) string {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\t"+strings.Join(names, "\t"))
	for _, r := range rows(summaries, isNarrow) {
		cells := []string{r.label}
		for _, s := range summaries {
			cells = append(cells, r.value(s))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // a write to memory cannot fail
	return text.String()
}

// widest returns the width of the longest line in characters.
func widest(text string) (width int) {
	for line := range strings.Lines(text) {
		width = max(width, utf8.RuneCountInString(strings.TrimRight(line, " \n")))
	}
	return width
}

// titles returns the names of the traces. If several traces have the same name, it returns the sources of these traces instead.
func titles(summaries []*trace.Summary) []string {
	names := map[string]int{}
	for _, s := range summaries {
		names[s.Header.Name]++
	}
	var list []string
	for _, s := range summaries {
		title := s.Header.Name
		if names[title] > 1 {
			title = s.Header.Source
		}
		list = append(list, cpumap.Shorten(cpumap.Clean(title), 28))
	}
	return list
}

// rows returns the rows of the table.
func rows(summaries []*trace.Summary, isNarrow bool) []row {
	list := []row{
		{"span", func(s *trace.Summary) string { return span(s.Header.Span.Seconds()) }},
		{"events", func(s *trace.Summary) string { return count(s.Header.Events) }},
		{"machines at the start", func(s *trace.Summary) string { return count(s.Machines.Start) }},
		{"  cores", func(s *trace.Summary) string { return count(int64(s.Machines.Cores + 0.5)) }},
	}
	list = append(list, mixRows(summaries)...)
	list = append(list,
		row{"  removals, updates", func(s *trace.Summary) string {
			return count(s.Machines.Removals) + ", " + count(s.Machines.Updates)
		}},
		row{"containers at the start", func(s *trace.Summary) string { return count(s.Containers.Start) }},
		row{"  cores: p10 p50 p75 p90 p99", func(s *trace.Summary) string { return requests(s.RequestHeld, s.Containers.Start) }},
		row{"new containers", func(s *trace.Summary) string { return count(s.Containers.New) }},
		row{"  cores: p10 p50 p75 p90 p99", func(s *trace.Summary) string { return requests(s.RequestNew, s.Containers.New) }},
		row{"  per hour: mean, p5 p50 p95", func(s *trace.Summary) string { return hourly(s.Arrivals) }},
		row{"most containers at once", func(s *trace.Summary) string { return count(s.Containers.AtOnce) }},
		row{"new jobs", func(s *trace.Summary) string { return count(s.Jobs) }},
		row{"  per hour: mean, p5 p50 p95", func(s *trace.Summary) string { return hourly(s.JobArrivals) }},
		row{"requested CPU / capacity", func(s *trace.Summary) string { return fmt.Sprintf("%.1f %%", 100*s.LoadMean) }},
	)
	return append(list, classRows(summaries, isNarrow)...)
}

// mixRows returns rows for the machine sizes that are frequent in any trace, with their share of the machines in every trace.
func mixRows(summaries []*trace.Summary) []row {
	const most, least = 6, 0.002
	var list []row
	seen := map[string]bool{}
	for _, s := range summaries {
		for _, m := range s.Machines.Mix {
			label := "  " + machineName(s, m)
			if seen[label] || m.Share < least || len(list) == most {
				continue
			}
			seen[label] = true
			list = append(list, row{label, func(other *trace.Summary) string {
				share := 0.0
				for _, k := range other.Machines.Mix {
					if "  "+machineName(other, k) == label {
						share += k.Share
					}
				}
				return fmt.Sprintf("%.1f %%", 100*share)
			}})
		}
	}
	return list
}

// machineName describes a machine size.
func machineName(s *trace.Summary, m trace.MachineKind) string {
	if s.Header.Unit == trace.LargestMachine {
		return fmt.Sprintf("%v cores, memory %.3g", short(m.Cores), m.Memory)
	}
	return fmt.Sprintf("%v cores, %v GiB", short(m.Cores), short(math.Round(m.Memory/1024)))
}

// classRows returns the rows with the durations of each class. If isNarrow is true, the name of the class has a row of its own.
func classRows(summaries []*trace.Summary, isNarrow bool) []row {
	var list []row
	seen := map[string]bool{}
	for _, s := range summaries {
		for _, class := range s.Classes {
			if seen[class.Name] {
				continue
			}
			seen[class.Name] = true
			name := "class " + cpumap.Clean(class.Name)
			if class.Sensitive {
				name += ", latency-sensitive"
			}
			label := name + ": at the start, new"
			if isNarrow {
				list = append(list, row{name, func(*trace.Summary) string { return "" }})
				label = "  at the start, new"
			}
			list = append(list,
				row{label, classCell(class.Name, func(c *trace.ClassTimes) string { return count(c.Start) + ", " + count(c.New) })},
				row{"  ran for: p25 p50 p75 p90", classCell(class.Name, func(c *trace.ClassTimes) string {
					d := c.Duration
					if d.Max == 0 {
						return "-"
					}
					return strings.Join([]string{span(d.P25), span(d.P50), span(d.P75), span(d.P90)}, "  ")
				})})
		}
	}
	return list
}

// classCell returns a function that formats the times of the class called name. The function returns "-" if the trace has no such
// class.
func classCell(name string, format func(*trace.ClassTimes) string) func(*trace.Summary) string {
	return func(s *trace.Summary) string {
		for i := range s.Classes {
			if s.Classes[i].Name == name {
				return format(&s.Classes[i])
			}
		}
		return "-"
	}
}

// requests formats quantiles of the requests of n containers.
func requests(q trace.Quantiles, n int64) string {
	if n == 0 {
		return "-"
	}
	return strings.Join([]string{short(q.P10), short(q.P50), short(q.P75), short(q.P90), short(q.P99)}, "  ")
}

// hourly formats the number of arrivals per hour.
func hourly(q trace.Quantiles) string {
	parts := []string{count(int64(q.Mean+0.5)) + ","}
	for _, v := range []float64{q.P5, q.P50, q.P95} {
		parts = append(parts, count(int64(v)))
	}
	return strings.Join(parts, " ")
}

// short formats a number with three digits.
func short(v float64) string {
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.ContainsRune(s, 'e') {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return s
}

// count formats a whole number with commas.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span formats a number of seconds in a readable unit.
func span(s float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}} {
		if s >= 1.95*unit.seconds {
			return short(s/unit.seconds) + " " + unit.name
		}
	}
	return short(s) + " s"
}
