// Package expreport shows what experiments gave: as a table, as Markdown, as pictures, and as a page
// that has it all. It measures nothing.
package expreport

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/wholefile"
)

// A Report is an experiment to be shown.
type Report struct{ *experiment.Report }

// Files returns what goes into the folder of a report.
func (r Report) Files() []wholefile.File {
	files := []wholefile.File{{Name: "report.json", Write: r.Write}, {Name: "report.md", Write: r.Markdown}, {Name: "report.html", Write: r.HTML}}
	for i, m := range r.Metrics {
		for _, form := range forms {
			files = append(files, wholefile.File{
				Name:  r.figureName(i) + form.suffix,
				Write: func(w io.Writer) error { return r.draw(w, m, form.write) },
			})
		}
	}
	return files
}

// figureName makes a file's name for a metric's picture.
func (r Report) figureName(metric int) string {
	if metric == 0 {
		return "figure-time"
	}
	return strings.TrimRight(fmt.Sprintf("figure-%d-%s", metric, inFileName(r.Metrics[metric].Name)), "-")
}

// inFileName makes a part of a file's name of a text.
func inFileName(text string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, text)
	return strings.Trim(name[:min(len(name), 40)], "-")
}

// A column of the tables: its title, and what stands in it.
type column struct {
	title string
	value func(*experiment.Comparison) string
}

var columns = []column{
	{"SET-UP", func(c *experiment.Comparison) string { return c.Setup.String() }},
	{"LIMIT", func(c *experiment.Comparison) string { return limit(c) }},
	{"RUNS", func(c *experiment.Comparison) string { return strconv.Itoa(c.Spread.N) }},
	{"FAILED", func(c *experiment.Comparison) string { return strconv.Itoa(c.Failed) }},
	{"MEDIAN", func(c *experiment.Comparison) string { return ifRuns(c, figure(c.Spread.Median)) }},
	{"QUARTILES", func(c *experiment.Comparison) string {
		return ifRuns(c, figure(c.Spread.Quarter)+" to "+figure(c.Spread.Quarter3))
	}},
	{"PAIRS", against(func(a *experiment.Against) string { return strconv.Itoa(a.Pairs) })},
	{"RATIO", against(func(a *experiment.Against) string { return fixed(a.Ratio) })},
	{"95 %", against(func(a *experiment.Against) string { return fixed(a.Interval.Low) + " to " + fixed(a.Interval.High) })},
	{"P", against(func(a *experiment.Against) string { return probability(a.P) })},
	{"DELTA", against(func(a *experiment.Against) string { return fixed(a.Delta) })},
	{"THROTTLED", func(c *experiment.Comparison) string { return fmt.Sprintf("%.0f %%", 100*c.Throttled) }},
	{"OTHERS", func(c *experiment.Comparison) string { return fmt.Sprintf("%.2f", c.Others) }},
}

// legend says what the columns are.
const legend = `RATIO: of the runs of each round, to the first set-up's: the median, with its 95 % interval (bootstrap).
P: of such a difference by chance (signed ranks of those pairs, two-sided). DELTA: Cliff's, -1 to 1.
THROTTLED: periods in which the quota ran out. OTHERS: CPUs that others used meanwhile, the median.`

func limit(c *experiment.Comparison) string {
	if c.Setup.Limit == 0 {
		return "-"
	}
	return c.Setup.Limit.String()
}

func ifRuns(c *experiment.Comparison, text string) string {
	if c.Spread.N == 0 {
		return "-"
	}
	return text
}

func against(value func(*experiment.Against) string) func(*experiment.Comparison) string {
	return func(c *experiment.Comparison) string {
		if c.Against == nil {
			return "-"
		}
		return value(c.Against)
	}
}

// figure writes a value with about four digits, never as 1e+06.
func figure(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(max(decimals, 0), 9), 64)
}

func fixed(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func probability(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return strconv.FormatFloat(p, 'f', 4, 64)
}

// Text writes the tables for a terminal.
func (r Report) Text(w io.Writer) error {
	var text strings.Builder
	for _, m := range r.Metrics {
		fmt.Fprintf(&text, "%s\n\n", title(m))
		t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		for i, c := range columns {
			fmt.Fprint(t, tabs(i), c.title)
		}
		fmt.Fprintln(t)
		for _, comparison := range r.Compare(m.Name) {
			for i, c := range columns {
				fmt.Fprint(t, tabs(i), c.value(&comparison))
			}
			fmt.Fprintln(t)
		}
		t.Flush()
		fmt.Fprintln(&text)
	}
	for _, line := range r.notes() {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "%s\n", legend)
	_, err := io.WriteString(w, strings.Map(plain, text.String()))
	return err
}

// plain keeps a report's texts from steering a terminal.
func plain(c rune) rune {
	if c == '\n' || unicode.IsPrint(c) {
		return c
	}
	return ' '
}

func tabs(i int) string {
	if i == 0 {
		return ""
	}
	return "\t"
}

// title names a metric, its unit, and what is better.
func title(m experiment.ReportMetric) string {
	unit, better := "", "lower is better"
	if m.Unit != "" {
		unit = ", " + m.Unit
	}
	if m.HigherIsBetter {
		better = "higher is better"
	}
	return fmt.Sprintf("%s%s (%s)", m.Name, unit, better)
}

// notes are lines on failed runs, and on an experiment that was stopped.
func (r Report) notes() (notes []string) {
	for i, s := range r.Setups {
		if failed, why := r.Failures(i); failed > 0 {
			notes = append(notes, fmt.Sprintf("%d rounds of %v failed; the first: %s", failed, s, why))
		}
	}
	if r.Stopped {
		notes = append(notes, fmt.Sprintf("stopped before its end: %d rounds were asked for", r.Rounds))
	}
	return notes
}

// Markdown writes the tables, and what was measured where.
func (r Report) Markdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n%s\n", code(r.what()), escape(r.where()))
	for i, m := range r.Metrics {
		fmt.Fprintf(&text, "\n## %s\n\n![%s](%s.svg)\n\n", escape(title(m)), "box plots", r.figureName(i))
		for _, c := range columns {
			fmt.Fprintf(&text, "| %s ", strings.ToLower(c.title))
		}
		text.WriteString("|\n" + strings.Repeat("| --- ", len(columns)) + "|\n")
		for _, comparison := range r.Compare(m.Name) {
			for _, c := range columns {
				fmt.Fprintf(&text, "| %s ", escape(c.value(&comparison)))
			}
			text.WriteString("|\n")
		}
	}
	text.WriteString("\n")
	for _, line := range r.notes() {
		fmt.Fprintf(&text, "- %s\n", escape(line))
	}
	fmt.Fprintf(&text, "\n%s\n", legend)
	_, err := io.WriteString(w, text.String())
	return err
}

// what says what was run.
func (r Report) what() string {
	what := strings.Join(r.Command, " ")
	if len(r.Server) > 0 {
		what = strings.Join(r.Server, " ") + ", with " + what
	}
	if r.Name != "" {
		what = r.Name + ": " + what
	}
	return what
}

// where says what was measured where.
func (r Report) where() string {
	m := &r.Machine
	return fmt.Sprintf("%s, %d CPUs (%s), Linux %s, load %s before; %s; %d rounds in random order, seed %d.",
		m.Model, m.CPUs, m.Topology, m.Kernel, m.Load, r.Began.Format("2006-01-02 15:04 MST"), r.Rounds, r.Seed)
}

var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "*", `\*`, "_", `\_`, "\n", " ", "\r", " ")

// escape keeps Markdown from meaning something by a text.
func escape(text string) string { return markdown.Replace(text) }

// code is a text as code.
func code(text string) string {
	return "`" + strings.NewReplacer("`", "'", "\n", " ", "\r", " ").Replace(text) + "`"
}
