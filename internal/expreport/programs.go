package expreport

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/experiment"
	drawing "github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/wholefile"
)

// Programs are several programs' reports to be shown together.
type Programs struct{ *experiment.Programs }

// Files returns what goes into the folder of the reports.
func (p Programs) Files() []wholefile.File {
	files := []wholefile.File{{Name: "programs.json", Write: p.JSON}, {Name: "programs.md", Write: p.Markdown}}
	for _, form := range forms {
		files = append(files, wholefile.File{
			Name:  "programs" + form.suffix,
			Write: func(w io.Writer) error { return p.draw(w, form.write) },
		})
	}
	return files
}

// JSON writes them as data.
func (p Programs) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(p.Programs)
}

// table returns the titles of the columns, and the rows.
func (p Programs) table() (titles []string, rows [][]string) {
	titles = []string{"PROGRAM", "METRIC", "RUNS", strings.ToUpper(p.Base.String())}
	for _, s := range p.Setups {
		title := strings.ToUpper(s.String())
		if s.Limit != p.Base.Limit && s.Limit != 0 {
			title += " AT " + s.Limit.String()
		}
		titles = append(titles, title)
	}
	for i := range p.Programs.Programs {
		program := &p.Programs.Programs[i]
		median := "-"
		if program.Base.N > 0 {
			median = figure(program.Base.Median)
		}
		row := []string{program.Name, title(program.Metric), fmt.Sprint(program.Base.N), median}
		for _, g := range program.Gains {
			row = append(row, gain(g))
		}
		rows = append(rows, row)
	}
	return titles, rows
}

// gain writes how many times better a set-up is, and marks what chance may have made.
func gain(g *experiment.Gain) string {
	if g == nil {
		return "-"
	}
	text := fmt.Sprintf("%.3f (%.3f to %.3f)", g.Ratio, g.Interval.Low, g.Interval.High)
	if g.P >= 0.05 {
		text += " ~"
	}
	if g.Failed > 0 {
		text += fmt.Sprintf(", %d failed", g.Failed)
	}
	return text
}

// legend says what the columns are.
func (p Programs) legend() string {
	return fmt.Sprintf("%s: the median. Each other set-up: how many times better it is (above 1: better), the median of the rounds, with its 95 %% interval.\n"+
		"~: chance makes such a difference in 5 %% of the cases or more (signed ranks of the pairs, two-sided).", p.Base)
}

// where says what was measured where.
func (p Programs) where() string {
	m := &p.Machine
	return fmt.Sprintf("%s, %d CPUs (%s), Linux %s; limit %v.", m.Model, m.CPUs, m.Topology, m.Kernel, p.Base.Limit)
}

// Text writes the table for a terminal.
func (p Programs) Text(w io.Writer) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	titles, rows := p.table()
	for _, row := range append([][]string{titles}, rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
	fmt.Fprintf(&text, "\n%s\n%s\n", p.where(), p.legend())
	_, err := io.WriteString(w, strings.Map(plain, text.String()))
	return err
}

// Markdown writes the table, and what was measured where.
func (p Programs) Markdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", escape(p.where()))
	titles, rows := p.table()
	for i, row := range append([][]string{titles}, rows...) {
		for _, cell := range row {
			if i == 0 {
				cell = strings.ToLower(cell)
			}
			fmt.Fprintf(&text, "| %s ", escape(cell))
		}
		text.WriteString("|\n")
		if i == 0 {
			text.WriteString(strings.Repeat("| --- ", len(titles)) + "|\n")
		}
	}
	fmt.Fprintf(&text, "\n%s\n", p.legend())
	_, err := io.WriteString(w, text.String())
	return err
}

// draw draws the gains: a dot for each program and set-up, with its interval, beside each other by program.
func (p Programs) draw(w io.Writer, write func(io.Writer, *plot.Plot) error) error {
	plot := drawing.New()
	plot.Y.Label.Text = fmt.Sprintf("times better than %v", p.Base)
	plot.Y.Min, plot.Y.Max = 0.9, 1.1
	var names []string
	for i := range p.Programs.Programs {
		names = append(names, p.Programs.Programs[i].Name)
	}
	plot.NominalX(names...)
	even := plotter.NewFunction(func(float64) float64 { return 1 })
	even.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	plot.Add(even)
	for i, s := range p.Setups {
		if err := p.addGains(plot, i, s.String()); err != nil {
			return err
		}
	}
	plot.X.Min, plot.X.Max = -0.6, float64(len(names))-0.4
	if len(names) > 5 {
		plot.X.Tick.Label.Rotation, plot.X.Tick.Label.XAlign, plot.X.Tick.Label.YAlign = 0.5, draw.XRight, draw.YCenter
	}
	drawing.MakeRoom(plot, len(p.Setups))
	return write(w, plot)
}

// addGains adds one set-up's dots.
func (p Programs) addGains(to *plot.Plot, setup int, name string) error {
	var dots struct {
		plotter.XYs
		plotter.YErrors
	}
	place := 0.6 * ((float64(setup)+0.5)/float64(len(p.Setups)) - 0.5)
	for i := range p.Programs.Programs {
		if g := p.Programs.Programs[i].Gains[setup]; g != nil {
			dots.XYs = append(dots.XYs, plotter.XY{X: float64(i) + place, Y: g.Ratio})
			dots.YErrors = append(dots.YErrors, struct{ Low, High float64 }{g.Ratio - g.Interval.Low, g.Interval.High - g.Ratio})
			to.Y.Min, to.Y.Max = min(to.Y.Min, g.Interval.Low), max(to.Y.Max, g.Interval.High)
		}
	}
	if len(dots.XYs) == 0 {
		return nil
	}
	colour := drawing.Colours[setup%len(drawing.Colours)]
	bars, err := plotter.NewYErrorBars(dots)
	if err != nil {
		return err
	}
	bars.Color = colour
	scatter, err := plotter.NewScatter(slices.Clone(dots.XYs))
	if err != nil {
		return err
	}
	scatter.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}
	to.Add(bars, scatter)
	to.Legend.Add(name, scatter)
	return nil
}
