package expreport

import (
	"fmt"
	"io"
	"strings"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/jsonout"
)

// Programs formats the reports of several programs together.
type Programs struct{ *experiment.Programs }

// Files returns the files of the reports' folder.
func (p Programs) Files() []fileio.File {
	files := []fileio.File{{Name: "programs.json", Write: p.Write}, {Name: "programs.md", Write: p.Markdown}}
	return append(files, pictures("programs", p.draw)...)
}

// Write encodes the reports as JSON.
func (p Programs) Write(w io.Writer) error {
	return jsonout.Write(w, p.Programs)
}

// table returns the table with a row for each program.
func (p Programs) table() (t table) {
	t.Titles, t.Ranks = []string{"PROGRAM", "METRIC", "RUNS", strings.ToUpper(p.Base.String())}, []int{0, 0, 2, 1}
	for _, s := range p.Setups {
		title := strings.ToUpper(s.String())
		if s.Limit != p.Base.Limit && s.Limit != 0 {
			title += " AT " + s.Limit.String()
		}
		t.Titles, t.Ranks = append(t.Titles, title), append(t.Ranks, 0)
	}
	for i := range p.Programs.Programs {
		program := &p.Programs.Programs[i]
		median := "-"
		if program.Base.N > 0 {
			median = number(program.Base.Median)
		}
		row := []string{program.Name, title(program.Metric), fmt.Sprint(program.Base.N), median}
		for _, g := range program.Gains {
			row = append(row, gain(g))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// gain formats the improvement of a setup over the base setup. An improvement that is not significant has the mark ~.
func gain(g *experiment.Gain) string {
	if g == nil {
		return "-"
	}
	text := fmt.Sprintf("%.3f", g.Ratio)
	if g.Interval.IsKnown() {
		text += fmt.Sprintf(" (%.3f to %.3f)", g.Interval.Low, g.Interval.High)
	}
	if g.P > 1-experiment.Confidence {
		text += " ~"
	}
	if g.Failed > 0 {
		text += fmt.Sprintf(", %d failed", g.Failed)
	}
	return text
}

// legend explains the columns.
func (p Programs) legend() string {
	return fmt.Sprintf("%s: median. Other setups: improvement over it (above 1: better), with its 95 %% interval from six rounds on.\n"+
		"~: not significant: p-value above 0.05 (signed-rank test of the pairs, two-sided).", p.Base)
}

// machineText describes the machine and the measurement.
func (p Programs) machineText() string {
	return fmt.Sprintf("%s; limit %v.", machineText(&p.Machine), p.Base.Limit)
}

// warnings returns a line for each program whose CPUs other processes used.
func (p Programs) warnings() (lines []string) {
	for i := range p.Programs.Programs {
		if program := &p.Programs.Programs[i]; program.Interference != nil {
			lines = append(lines, program.Interference.WarningFor(program.Name))
		}
	}
	return lines
}

// Text writes the table for a terminal of the given width; 0: unlimited.
func (p Programs) Text(w io.Writer, width int) error {
	var text strings.Builder
	for _, line := range p.warnings() {
		fmt.Fprintln(&text, line)
	}
	t := p.table()
	t.textRows(&text, width)
	fmt.Fprintf(&text, "\n%s\n%s\n", p.machineText(), p.legend())
	_, err := io.WriteString(w, strings.Map(printable, text.String()))
	return err
}

// Markdown writes the table, and the description of the measurement.
func (p Programs) Markdown(w io.Writer) error {
	var text strings.Builder
	if warnings := p.warnings(); len(warnings) > 0 {
		writeList(&text, warnings)
		fmt.Fprintln(&text)
	}
	fmt.Fprintf(&text, "%s\n\n", escapeMarkdown(p.machineText()))
	t := p.table()
	t.markdownRows(&text)
	fmt.Fprintf(&text, "\n%s\n", p.legend())
	_, err := io.WriteString(w, text.String())
	return err
}

// draw draws the improvements. Each program has a dot with an interval for each setup.
func (p Programs) draw() *figure.Plot {
	plot := figure.New()
	plot.Y.Label = fmt.Sprintf("times better than %v", p.Base)
	plot.Y.Min, plot.Y.Max = 0.9, 1.1
	var names []string
	for i := range p.Programs.Programs {
		names = append(names, p.Programs.Programs[i].Name)
	}
	plot.X.SetNames(names)
	plot.Line([]figure.Point{{X: plot.X.Min, Y: 1}, {X: plot.X.Max, Y: 1}}, figure.Stroke{Width: 0.8, Dashes: []float64{4, 3}})
	for i, s := range p.Setups {
		p.addGains(plot, i, s.String())
	}
	return plot
}

// addGains adds the dots and intervals of a setup.
func (p Programs) addGains(to *figure.Plot, setup int, name string) {
	offset := 0.6 * ((float64(setup)+0.5)/float64(len(p.Setups)) - 0.5)
	color := figure.Colors[setup%len(figure.Colors)]
	var dots []figure.Point
	for i := range p.Programs.Programs {
		if g := p.Programs.Programs[i].Gains[setup]; g != nil {
			x := float64(i) + offset
			dots = append(dots, figure.Point{X: x, Y: g.Ratio})
			if g.Interval.IsKnown() {
				to.Interval(x, g.Interval.Low, g.Interval.High, color)
			}
		}
	}
	if len(dots) > 0 {
		to.Dots(dots, color, 3)
		to.Label(name, figure.Stroke{Color: color}, 3)
	}
}
