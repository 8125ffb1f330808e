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

// summarize returns the summary of a figure over all runs of a cell. It ignores c.Run. It skips results without the figure.
func summarize(cells map[Cell]Result, c Cell, f figure) (s summary) {
	var values []float64
	for key, result := range cells {
		if key.Run = c.Run; key != c {
			continue
		}
		if value, has := f.of(result); has {
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

// A figure is a value of a result. A result can lack it: a guest has no log rate and no delay.
type figure struct {
	title  string // of its table, with the unit
	format string
	of     func(Result) (value float64, has bool)
}

var (
	sum     = figure{"CPU use of the container and of the helpers, %", "%.1f", func(r Result) (float64, bool) { return 100 * (r.Own + r.Helpers), true }}
	own     = figure{"CPU use of the container, %", "%.1f", func(r Result) (float64, bool) { return 100 * r.Own, true }}
	logRate = figure{"Growth of the log, kB/s", "%.0f", func(r Result) (float64, bool) { return r.LogRate / 1000, r.LogRate > 0 }}
	delay   = figure{"Delay of the log, median in ms", "%.1f", func(r Result) (float64, bool) { return milliseconds(r.Delay.Median), r.Delay.Count > 0 }}
	p99     = figure{"Delay of the log, 99th percentile in ms", "%.1f", func(r Result) (float64, bool) { return milliseconds(r.Delay.P99), r.Delay.Count > 0 }}
	events  = figure{"events of sysbench per second", "%.0f", func(r Result) (float64, bool) { return r.Events, true }}
)

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
	t.out.WriteString("### A container alone\n")
	t.figures(aloneRows(), sum, own, logRate, delay, p99)
	t.out.WriteString("\n### A container beside others\n")
	t.ratios()
	t.figures(besideRows(), delay, p99)
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

// A row has the results for a program.
type row struct {
	size string // quota, or number of containers
	cell Cell   // without Column and Work
}

// aloneRows returns the rows of E1.
func aloneRows() (rows []row) {
	for _, quota := range Quotas() {
		for _, p := range Programs() {
			rows = append(rows, row{fmt.Sprintf("%d ms", quota.Milliseconds()), newE1(quota, p.Name)})
		}
	}
	return rows
}

// besideRows returns the rows of E2.
func besideRows() (rows []row) {
	for _, n := range Sizes() {
		for _, p := range Programs() {
			rows = append(rows, row{fmt.Sprint(n), newE2(n, p.Name)})
		}
	}
	return rows
}

// figures writes a table for each figure that a column has.
func (t *tables) figures(rows []row, figures ...figure) {
	for _, f := range figures {
		isEmpty := true
		text := func(r row, c Column) string {
			s := summarize(t.cells, r.cell.in(c.Name, t.work(c)), f)
			isEmpty = isEmpty && s.runs == 0
			return s.text(f.format)
		}
		lines := t.lines(rows, nil, nil, text)
		if !isEmpty {
			fmt.Fprintf(&t.out, "\n%s:\n\n%s", f.title, lines)
		}
	}
}

// ratios writes the table with the events of sysbench beside a program, divided by the events of sysbench beside dd under the same
// engine.
func (t *tables) ratios() {
	fmt.Fprintf(&t.out, "\nEvents of sysbench, relative to its events beside `dd`:\n\n%s", t.lines(besideRows(),
		[]string{"paper, none", "paper, patch"},
		func(r row) []string {
			figures := paper[r.cell.Containers][r.cell.Program]
			return []string{figures.none, figures.patch}
		},
		func(r row, c Column) string {
			base := baseline(c.Engine)
			alone := summarize(t.cells, newE2(r.cell.Containers, DD).in(base.Name, t.work(base)), events)
			return summarize(t.cells, r.cell.in(c.Name, t.work(c)), events).over(alone).text("%.2f")
		}))
}

// lines returns a table with a field for each row and column. names are the headers of further fields, which more returns for each row.
func (t *tables) lines(rows []row, names []string, more func(row) []string, text func(row, Column) string) string {
	size := "quota"
	if rows[0].cell.Experiment == E2 {
		size = "N"
	}
	var out strings.Builder
	line := func(fields ...string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(fields, " | ")) }
	headers := slices.Concat([]string{size, "program"}, names, t.names())
	line(headers...)
	out.WriteString("|" + strings.Repeat(" --- |", len(headers)) + "\n")
	for _, r := range rows {
		fields := []string{r.size, "`" + r.cell.Program + "`"}
		if more != nil {
			fields = append(fields, more(r)...)
		}
		for _, c := range t.columns {
			fields = append(fields, text(r, c))
		}
		line(fields...)
	}
	return out.String()
}

// names returns the names of the columns.
func (t *tables) names() (names []string) {
	for _, c := range t.columns {
		names = append(names, c.Name)
	}
	return names
}
