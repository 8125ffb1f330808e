package ledgertables

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// paper has the ratios of the paper's tables 4 and 9 by number of containers and program: without (none) and with the paper's
// kernel patch. The figures of the patch for 2 containers are from the paper's text. Its figures for 4 containers are illegible.
var paper = map[int]map[string]struct{ none, patch string }{
	2: {"yes": {"0.50", "0.95"}, "lsmod": {"0.78", "0.93"}, "echo": {"0.78", "0.92"}},
	3: {"yes": {"0.51", "0.87"}, "lsmod": {"0.71", "0.83"}, "echo": {"0.73", "0.87"}},
	4: {"yes": {"0.50", "-"}, "lsmod": {"0.68", "-"}, "echo": {"0.70", "-"}},
	5: {"yes": {"0.50", "0.70"}, "lsmod": {"0.67", "0.78"}, "echo": {"0.69", "0.82"}},
}

// A summary is the median, the lowest and the highest value of a figure over the runs of a cell.
type summary struct {
	median, low, high float64
	runs              int // 0: the cell is not measured
}

// summarize returns the summary of a figure over all runs of a cell. It ignores c.Run. It skips results without the figure (has is false).
func summarize(cells map[Cell]Result, c Cell, figure func(Result) (value float64, has bool)) (s summary) {
	var values []float64
	for key, result := range cells {
		if key.Run = c.Run; key != c {
			continue
		}
		if value, has := figure(result); has {
			values = append(values, value)
		}
	}
	n := len(values)
	if n == 0 {
		return s
	}
	slices.Sort(values)
	return summary{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1], n}
}

// text formats a summary: the median and, if there are several runs, the lowest and the highest value.
func (s summary) text(format string) string {
	switch s.runs {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf(format, s.median)
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s.median, s.low, s.high)
}

// over returns the summary divided by the median of another summary.
func (s summary) over(divisor summary) summary {
	if divisor.runs == 0 || divisor.median == 0 {
		return summary{}
	}
	return summary{s.median / divisor.median, s.low / divisor.median, s.high / divisor.median, s.runs}
}

// The figures of a result.
func own(r Result) (float64, bool)     { return 100 * r.Own, true }
func helpers(r Result) (float64, bool) { return 100 * r.Helpers, true }
func sum(r Result) (float64, bool)     { return 100 * (r.Own + r.Helpers), true }
func logRate(r Result) (float64, bool) { return r.LogRate / 1000, true }
func events(r Result) (float64, bool)  { return r.Events, true }

func delayMedian(r Result) (float64, bool) { return milliseconds(r.Delay.Median), r.Delay.Count > 0 }
func delayP99(r Result) (float64, bool)    { return milliseconds(r.Delay.P99), r.Delay.Count > 0 }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Tables returns the tables in Markdown, with the columns and the duration of the settings. A column without a measured cell is left out, and a
// cell that is not measured is "-".
func (s Settings) Tables(cells map[Cell]Result) string {
	t := tables{Settings: s, cells: cells}
	for _, c := range s.Columns {
		if t.isMeasured(c) {
			t.columns = append(t.columns, c)
		}
	}
	if len(t.columns) == 0 {
		return "No cell is measured.\n"
	}
	t.alone()
	t.beside()
	t.delays()
	return t.out.String()
}

type tables struct {
	Settings
	cells   map[Cell]Result
	columns []Column
	out     strings.Builder
}

// isMeasured reports whether a cell of a column is measured.
func (t *tables) isMeasured(c Column) bool {
	for cell := range t.cells {
		if cell.Column == c.Name && cell.Work == t.work(c) && cell.Program != DD {
			return true
		}
	}
	return false
}

// header writes the names of columns.
func (t *tables) header(names ...string) {
	t.row(names...)
	t.out.WriteString("|" + strings.Repeat(" --- |", len(names)) + "\n")
}

func (t *tables) row(fields ...string) { fmt.Fprintf(&t.out, "| %s |\n", strings.Join(fields, " | ")) }

// alone writes the table of E1, in percent of a CPU.
func (t *tables) alone() {
	t.out.WriteString("### A container alone\n\n")
	t.header("quota", "program", "column", "own", "helpers", "sum", "log, kB/s", "delay, ms", "p99 of the delay, ms")
	for _, quota := range Quotas() {
		for _, p := range Programs() {
			for _, column := range t.columns {
				cell := newE1(quota, p.Name).in(column.Name, t.work(column))
				text := func(figure func(Result) (float64, bool), format string) string {
					return summarize(t.cells, cell, figure).text(format)
				}
				t.row(fmt.Sprintf("%d ms", quota.Milliseconds()), "`"+p.Name+"`", column.Name, text(own, "%.1f"), text(helpers, "%.1f"), text(sum, "%.1f"),
					text(logRate, "%.0f"), text(delayMedian, "%.1f"), text(delayP99, "%.1f"))
			}
		}
	}
}

// beside writes the table of E2: the events of sysbench beside a program, divided by the events of sysbench beside dd under the
// same engine.
func (t *tables) beside() {
	t.out.WriteString("\n### A container beside others\n\n")
	t.header(append([]string{"N", "program", "paper, none", "paper, patch"}, t.names()...)...)
	for _, n := range Sizes() {
		for _, p := range Programs() {
			fields := []string{fmt.Sprint(n), "`" + p.Name + "`", paper[n][p.Name].none, paper[n][p.Name].patch}
			for _, column := range t.columns {
				base := baseline(column.Engine)
				alone := summarize(t.cells, newE2(n, DD).in(base.Name, t.work(base)), events)
				fields = append(fields, summarize(t.cells, newE2(n, p.Name).in(column.Name, t.work(column)), events).over(alone).text("%.2f"))
			}
			t.row(fields...)
		}
	}
}

// delays writes the table with the delays of E2.
func (t *tables) delays() {
	t.out.WriteString("\n### Delay of the log beside others, median and p99 in ms\n\n")
	t.header(append([]string{"N", "program"}, t.names()...)...)
	for _, n := range Sizes() {
		for _, p := range Programs() {
			fields := []string{fmt.Sprint(n), "`" + p.Name + "`"}
			for _, column := range t.columns {
				cell := newE2(n, p.Name).in(column.Name, t.work(column))
				fields = append(fields, summarize(t.cells, cell, delayMedian).text("%.1f")+", "+summarize(t.cells, cell, delayP99).text("%.1f"))
			}
			t.row(fields...)
		}
	}
}

// names returns the names of the columns.
func (t *tables) names() (names []string) {
	for _, c := range t.columns {
		names = append(names, c.Name)
	}
	return names
}
