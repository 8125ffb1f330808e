// Package expreport formats the results of package experiment for the candor command: as text tables, Markdown, pictures and HTML pages.
// Report, Isolation and Programs wrap the three types of results, and each has the methods Files, Text and Markdown. Report and Isolation
// also have the method HTML. The package does not measure.
package expreport

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/fileio"
)

// A Report formats the report of an experiment.
type Report struct{ *experiment.Report }

// Files returns the files of a report's folder.
func (r Report) Files() []fileio.File {
	files := pages(r.Write, r.Markdown, r.HTML)
	for i, m := range r.Metrics {
		files = append(files, pictures(r.figureName(i), func() *figure.Plot { return r.draw(m) })...)
	}
	return files
}

// figureName returns the file name of a metric's picture, without the suffix.
func (r Report) figureName(metric int) string {
	if metric == 0 {
		return "figure-time"
	}
	return strings.TrimRight(fmt.Sprintf("figure-%d-%s", metric, fileNamePart(r.Metrics[metric].Name)), "-")
}

// A column is a column of a table. value returns the cell of a comparison. rank orders the columns by importance (texttable.Table).
type column struct {
	title string
	rank  int
	value func(*experiment.Comparison) string
}

var columns = []column{
	{"SETUP", 0, func(c *experiment.Comparison) string { return c.Setup.String() }},
	{"LIMIT", 4, limit},
	{"RUNS", 6, func(c *experiment.Comparison) string { return strconv.Itoa(c.Spread.N) }},
	{"FAILED", 3, func(c *experiment.Comparison) string { return strconv.Itoa(c.Failed) }},
	{"MEDIAN", 0, func(c *experiment.Comparison) string { return ifRuns(c, number(c.Spread.Median)) }},
	{"QUARTILES", 7, func(c *experiment.Comparison) string {
		return ifRuns(c, number(c.Spread.Quarter)+" to "+number(c.Spread.Quarter3))
	}},
	{"PAIRS", 9, ifCompared(func(a *experiment.Against) string { return strconv.Itoa(a.Pairs) })},
	{"RATIO", 0, ifCompared(func(a *experiment.Against) string { return fixed(a.Ratio) })},
	{"95 %", 0, ifCompared(func(a *experiment.Against) string { return interval(a.Interval) })},
	{"P", 1, ifCompared(func(a *experiment.Against) string { return probability(a.P) })},
	{"DELTA", 8, ifCompared(func(a *experiment.Against) string { return fixed(a.Delta) })},
	{"THROTTLED", 2, func(c *experiment.Comparison) string { return fmt.Sprintf("%.0f %%", 100*c.Throttled) }},
	{"OTHERS", 5, func(c *experiment.Comparison) string { return fmt.Sprintf("%.2f", c.Others) }},
}

// legend explains the columns.
const legend = `RATIO: typical ratio of the rounds to the first setup (Hodges-Lehmann), with its 95 % interval.
P: p-value of the signed-rank test of these pairs, two-sided. The interval excludes 1 if P is at
most 0.05, and contains 1 otherwise; it needs six pairs. DELTA: Cliff's delta, -1 to 1.
THROTTLED: share of the periods in which the quota ran out. OTHERS: CPUs that other processes used, median.`

func limit(c *experiment.Comparison) string {
	if c.Setup.Limit == 0 {
		return "-"
	}
	return c.Setup.Limit.String()
}

// interval formats an interval, "-" if there are too few pairs.
func interval(i experiment.Interval) string {
	if !i.IsKnown() {
		return "-"
	}
	return fixed(i.Low) + " to " + fixed(i.High)
}

func ifRuns(c *experiment.Comparison, text string) string {
	if c.Spread.N == 0 {
		return "-"
	}
	return text
}

func ifCompared(value func(*experiment.Against) string) func(*experiment.Comparison) string {
	return func(c *experiment.Comparison) string {
		if c.Against == nil {
			return "-"
		}
		return value(c.Against)
	}
}

// table returns the table of a metric's comparisons.
func (r Report) table(m experiment.ReportMetric) table {
	t := table{Heading: title(m)}
	for _, c := range columns {
		t.Titles, t.Ranks = append(t.Titles, c.title), append(t.Ranks, c.rank)
	}
	for _, comparison := range r.Compare(m.Name) {
		var row []string
		for _, c := range columns {
			row = append(row, c.value(&comparison))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// setupTable returns the table that explains the setups.
func (r Report) setupTable() table {
	t := table{Titles: []string{"SETUP", "LIMIT BY", "VISIBLE CPUS"}, IsWords: true}
	for _, s := range r.Setups {
		enforcement, visible := setupText(s)
		t.Rows = append(t.Rows, []string{s.String(), enforcement, visible})
	}
	return t
}

// Text writes the tables for a terminal of the given width; 0: unlimited.
func (r Report) Text(w io.Writer, width int) error {
	var text strings.Builder
	for _, line := range slices.Concat(partialNote(r.Stopped, r.Rounds), r.verdicts()) {
		fmt.Fprintln(&text, line)
	}
	text.WriteString("\n")
	for _, m := range r.Metrics {
		t := r.table(m)
		t.text(&text, width)
	}
	for _, line := range r.notes() {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "%s\n", legend)
	_, err := io.WriteString(w, strings.Map(printable, text.String()))
	return err
}

// notes returns lines on failed runs.
func (r Report) notes() (notes []string) {
	for i, s := range r.Setups {
		if failed, why := r.Failures(i); failed > 0 {
			notes = append(notes, fmt.Sprintf("%s of %v failed; the first: %s", rounds(failed), s, why))
		}
	}
	return notes
}

// Markdown writes the tables, and the description of the measurement.
func (r Report) Markdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n%s\n", markdownCode(r.workloadText()), escapeMarkdown(r.measurementText()))
	writeList(&text, slices.Concat(partialNote(r.Stopped, r.Rounds), r.verdicts()))
	for i, m := range r.Metrics {
		t := r.table(m)
		fmt.Fprintf(&text, "\n## %s\n\n![box plots](%s.svg)\n\n", escapeMarkdown(t.Heading), r.figureName(i))
		t.markdownRows(&text)
	}
	writeList(&text, r.notes())
	fmt.Fprintf(&text, "\n%s\n", legend)
	_, err := io.WriteString(w, text.String())
	return err
}

// writeList writes a list in Markdown, with an empty line before it.
func writeList(w io.Writer, lines []string) {
	fmt.Fprintln(w)
	for _, line := range lines {
		fmt.Fprintf(w, "- %s\n", escapeMarkdown(line))
	}
}

// workloadText describes the workload.
func (r Report) workloadText() string {
	text := strings.Join(r.Command, " ")
	switch {
	case r.Image != nil:
		text = strings.TrimSpace(r.Image.String() + " " + text)
	case len(r.Server) > 0:
		text = strings.Join(r.Server, " ") + ", with " + text
	}
	if r.Name != "" {
		text = r.Name + ": " + text
	}
	return text
}

// measurementText describes the machine and the measurement.
func (r Report) measurementText() string {
	return measurementText(&r.Machine, r.Began, r.Rounds, r.Seed)
}
