package expreport

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/fileio"
)

// An Isolation formats the report of an isolation experiment. In the experiment, each application runs alone and beside each
// stressor, in each case. A case (experiment.Case) is a way to separate the application from the stressor.
type Isolation struct{ *experiment.IsolationReport }

// Files returns the files of a report's folder.
func (r Isolation) Files() []fileio.File {
	files := pages(r.Write, r.Markdown, r.HTML)
	for app := range r.Applications {
		files = append(files, pictures(r.figureName(app), func() *figure.Plot { return r.draw(app) })...)
	}
	return files
}

// figureName returns the file name of an application's picture, without the suffix.
func (r Isolation) figureName(app int) string {
	return fmt.Sprintf("figure-%d-%s", app+1, fileNamePart(r.Applications[app].Name))
}

func (r Isolation) tables() []table {
	return []table{r.caseTable(), r.stressorTable(), r.verdictTable(), r.slowdownTable()}
}

// caseTable returns the table of the cases and their CPUs.
func (r Isolation) caseTable() table {
	t := table{
		Heading: fmt.Sprintf("Cases: %v of the CPUs for the application, %v for the stressor", r.Split.Application, r.Split.Stressor),
		Titles:  []string{"CASE", "APPLICATION", "STRESSOR"},
		Legend:  "Cases of the study: together is 1 (alone) and 2 (beside a stressor), quota is 3, pinned is 4.",
	}
	for _, c := range r.Cases {
		application, stressor := c.Text(r.Split)
		t.Rows = append(t.Rows, []string{string(c), application, stressor})
	}
	return t
}

// stressorTable returns the table of the stressors and their work in each case.
func (r Isolation) stressorTable() table {
	t := table{
		Heading: "Work of the stressors",
		Titles:  []string{"STRESSOR"},
		Ranks:   []int{0},
		Legend: "CPUs that the stressor used, and bytes that it wrote, sent or took of memory, while the applications ran (medians). Throttling weakens a stressor.\n" +
			"Stressors: " + r.stressorTexts() + "\nFiles are in " + r.Tmp + " (" + r.FileSystem + ").",
	}
	for i, c := range r.Cases {
		t.Titles, t.Ranks = append(t.Titles, strings.ToUpper(string(c))), append(t.Ranks, i) // the first case is always shown
	}
	for s := range r.Stressors {
		row := []string{r.Stressors[s].Name}
		for c := range r.Cases {
			row = append(row, r.load(r.LoadOf(c, s), s))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r Isolation) stressorTexts() string {
	var texts []string
	for i := range r.Stressors {
		texts = append(texts, r.Stressors[i].Name+": "+r.Stressors[i].Text())
	}
	return strings.Join(texts, "; ") + "."
}

// load formats the work of a stressor.
func (r Isolation) load(l experiment.Load, stressor int) string {
	text := fmt.Sprintf("%.2f CPUs", l.CPUs)
	if counts := r.Stressors[stressor].Counts; counts != experiment.CountsNothing {
		text += fmt.Sprintf(", %.0f MB/s %s", l.Rate/1e6, counts)
	}
	return text
}

// verdictTable returns the table with a verdict on the isolation in each case, for each stressor.
func (r Isolation) verdictTable() table {
	t := table{
		Heading: "Is the application isolated from the stressor?",
		Titles:  []string{"CASE", "STRESSOR", "VERDICT", "SLOWED", "MEAN", "WORST", "STUDY'S"},
		Ranks:   []int{0, 0, 0, 3, 1, 2, 4},
		Legend: fmt.Sprintf("Slowdowns compare with the same case alone. SLOWED: applications whose slowdown is significantly above %.0f %%: the lower bound is above %.2f.\n"+
			"leaks: one or more; isolated: all are significantly below: the upper bound is below %.2f; uncertain: neither, as always with fewer than five runs.\n"+
			"Bounds: of the signed ranks of the pairs, one-sided, at the level %.2f, the lower bound at the level %.2f divided by the number of applications.\n"+
			"MEAN: geometric, of the applications. WORST: the largest slowdown with a leak, else the largest that is uncertain, else the largest, with its bounds.\n"+
			"STUDY'S: the mean compared with %s alone, as in the study.",
			100*experiment.IsolationMargin, 1+experiment.IsolationMargin, 1+experiment.IsolationMargin, experiment.IsolationLevel, experiment.IsolationLevel, r.Cases[0]),
	}
	for _, v := range r.Verdicts() {
		row := []string{string(r.Cases[v.Case]), r.Stressors[v.Stressor].Name, string(v.Verdict), fmt.Sprintf("%d of %d", v.Slowed, v.Apps), "-", "-", "-"}
		if v.Worst != nil {
			row[4], row[6] = fixed(v.Mean), fixed(v.Total)
			row[5] = r.Applications[v.Worst.App].Name + " " + slowdown(v.Worst)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// slowdownTable returns the table of the slowdowns of all applications, in all cases, beside all stressors.
func (r Isolation) slowdownTable() table {
	t := table{
		Heading: "Times",
		Titles:  []string{"APPLICATION", "CASE", "BESIDE", "RUNS", "MEDIAN, S", "QUARTILES", "BY STRESSOR", "VERDICT", "BY ALLOCATION", "THROTTLED"},
		Ranks:   []int{0, 0, 0, 4, 2, 6, 0, 1, 3, 5},
		Legend: "BY STRESSOR: typical ratio of the rounds to the same case alone, with its bounds (see above). VERDICT: by these bounds, for this application.\n" +
			"BY ALLOCATION: ratio of this case alone to the first case alone, with its 95 % interval from six rounds on. THROTTLED: share of the periods in which the application's quota ran out.",
	}
	for _, s := range r.Slowdowns() {
		beside, verdict := "alone", "-"
		if s.Stressor >= 0 {
			beside = r.Stressors[s.Stressor].Name
		}
		if s.ByStressor != nil {
			verdict = string(s.Verdict)
		}
		median, quartiles := "-", "-"
		if s.Spread.N > 0 {
			median, quartiles = number(s.Spread.Median), number(s.Spread.Quarter)+" to "+number(s.Spread.Quarter3)
		}
		t.Rows = append(t.Rows, []string{
			r.Applications[s.App].Name, string(r.Cases[s.Case]), beside, strconv.Itoa(s.Spread.N), median, quartiles,
			slowdown(&s), verdict, ratio(s.ByAllocation), fmt.Sprintf("%.0f %%", 100*s.Throttled),
		})
	}
	return t
}

// slowdown formats the slowdown by a stressor with its bounds.
func slowdown(s *experiment.Slowdown) string {
	if s.ByStressor == nil {
		return "-"
	}
	text := fixed(s.ByStressor.Ratio)
	if b := bounds(s.Bounds, fixed); b != "" {
		text += " (" + b + ")"
	}
	return text
}

// bounds formats bounds; "" if there are too few pairs for both.
func bounds(b experiment.Bounds, number func(float64) string) string {
	switch {
	case b.Low > 0 && b.High > 0:
		return number(b.Low) + " to " + number(b.High)
	case b.Low > 0:
		return "at least " + number(b.Low)
	case b.High > 0:
		return "at most " + number(b.High)
	}
	return ""
}

// ratio formats a ratio with its interval.
func ratio(a *experiment.Against) string {
	if a == nil {
		return "-"
	}
	if !a.Interval.IsKnown() {
		return fixed(a.Ratio)
	}
	return fmt.Sprintf("%s (%s)", fixed(a.Ratio), interval(a.Interval))
}

// Text writes the tables for a terminal of the given width; 0: unlimited.
func (r Isolation) Text(w io.Writer, width int) error {
	var text strings.Builder
	for _, line := range slices.Concat(partialNote(r.Stopped, r.Rounds), r.verdicts()) {
		fmt.Fprintln(&text, line)
	}
	text.WriteString("\n")
	for _, t := range r.tables() {
		t.text(&text, width)
	}
	for _, line := range r.notes() {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintln(&text, r.measurementText())
	_, err := io.WriteString(w, strings.Map(printable, text.String()))
	return err
}

// Markdown writes the tables, and the description of the measurement.
func (r Isolation) Markdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# Isolation\n\n%s\n", escapeMarkdown(r.measurementText()))
	writeList(&text, slices.Concat(partialNote(r.Stopped, r.Rounds), r.verdicts()))
	for _, line := range r.notes() {
		fmt.Fprintf(&text, "\n%s\n", escapeMarkdown(line))
	}
	for app := range r.Applications {
		fmt.Fprintf(&text, "\n![%s](%s.svg)\n", escapeMarkdown(r.Applications[app].Name), r.figureName(app))
	}
	for _, t := range r.tables() {
		t.markdown(&text)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// notes returns lines on failed runs and on other activity of the machine.
func (r Isolation) notes() (notes []string) {
	if failed, why := r.Failures(); failed > 0 {
		notes = append(notes, fmt.Sprintf("%s failed; the first: %s", cputext.Count(failed, "run"), why))
	}
	return append(notes, fmt.Sprintf("Other processes used %.2f CPUs (median).", r.Others()))
}

// measurementText describes the machine and the measurement.
func (r Isolation) measurementText() string {
	return measurementText(&r.Machine, r.Began, r.Rounds, r.Seed)
}
