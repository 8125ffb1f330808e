package simreport

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/simulate"
)

// Files returns the files of a report's folder: the figures of the paper, and the table.
func (r *Report) Files() []fileio.File {
	files := []fileio.File{{Name: "table.csv", Write: r.CSV}, {Name: "table.md", Write: r.Markdown}, {Name: "points.json", Write: r.JSON}}
	for _, f := range diagrams {
		files = append(files,
			fileio.File{Name: f.file + ".svg", Write: func(w io.Writer) error { return r.draw(w, f, figure.SVG) }},
			fileio.File{Name: f.file + ".png", Write: func(w io.Writer) error { return r.draw(w, f, figure.PNG) }})
	}
	return files
}

// A diagram is a figure of the paper: a quantity by the share of sensitive containers.
type diagram struct {
	file, title, label string
	value              func(*simulate.Result) float64
	bound              func(*simulate.Result) float64 // lower bound for all algorithms; nil: unknown
}

var diagrams = []diagram{
	{"figure-4a-shared-time", "Shared time s", "s, % of the sensitive containers' CPU time", func(r *simulate.Result) float64 { return 100 * r.S },
		func(r *simulate.Result) float64 { return 100 * r.SBound }},
	{"figure-4b-reject-rate", "Reject rate r", "r, % of the sensitive containers that found room", func(r *simulate.Result) float64 { return 100 * r.R },
		func(r *simulate.Result) float64 { return 100 * r.RBound }},
	{"figure-5-decision-time", "Time of a decision", "mean of all containers, µs", func(r *simulate.Result) float64 { return r.DecisionMeanUs }, nil},
}

// A curve is a series of points that differ only in their share of sensitive containers.
type curve struct {
	algorithm, policy, scheduler string
	points                       []*simulate.Result
}

// curves groups the points into curves, in order of first appearance.
func (r *Report) curves() []curve {
	var list []curve
	for i := range r.Points {
		p := &r.Points[i]
		at := slices.IndexFunc(list, func(c curve) bool {
			return c.algorithm == p.Algorithm && c.policy == p.Policy && c.scheduler == p.Scheduler
		})
		if at < 0 {
			at = len(list)
			list = append(list, curve{algorithm: p.Algorithm, policy: p.Policy, scheduler: p.Scheduler})
		}
		list[at].points = append(list[at].points, p)
	}
	for _, c := range list {
		slices.SortStableFunc(c.points, func(a, b *simulate.Result) int { return cmp.Compare(a.Sensitive, b.Sensitive) })
	}
	return list
}

// name returns the curve's name for the legend.
func (c *curve) name() string {
	algorithm := "Candor"
	if c.algorithm == "paper" {
		algorithm = "Algorithm 1"
	}
	return fmt.Sprintf("%s, %s, scheduler %s", algorithm, c.policy, c.scheduler)
}

// The colors by algorithm and scheduler. The dashes depend on the policy.
var curveColors = map[string][]color.Color{
	"candor": {figure.RGB(0x0969da), figure.RGB(0x1a9c56), figure.RGB(0x1b9aaa), figure.RGB(0x24478f)},
	"paper":  {figure.RGB(0xd9730d), figure.RGB(0xcf3f7e), figure.RGB(0x8250df), figure.RGB(0x8a5a2b)},
}

// style returns the line style of a curve. n is the number of previous schedulers of the same algorithm.
func (c *curve) style(n int) draw.LineStyle {
	colors := curveColors[c.algorithm]
	s := draw.LineStyle{Color: colors[n%len(colors)], Width: vg.Points(1.8)}
	if c.policy == "best-effort" {
		s.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
	}
	return s
}

// A form writes a plot in a file format.
type form func(w io.Writer, p *plot.Plot) error

// draw draws a diagram.
func (r *Report) draw(w io.Writer, f diagram, write form) error {
	p := newPlot()
	p.Title.Text = f.title + "\n" + r.subtitle()
	p.X.Label.Text, p.Y.Label.Text = "sensitive containers, %", f.label
	schedulers := map[string][]string{}
	for _, c := range r.curves() {
		known := schedulers[c.algorithm]
		if !slices.Contains(known, c.scheduler) {
			known = append(known, c.scheduler)
			schedulers[c.algorithm] = known
		}
		if err := c.draw(p, f, c.style(slices.Index(known, c.scheduler))); err != nil {
			return err
		}
	}
	entries := len(r.curves())
	if f.bound != nil {
		entries *= 2
	}
	figure.AddMargin(p, entries)
	return write(w, p)
}

// draw draws a curve, and the lower bound as dots of the same color.
func (c *curve) draw(p *plot.Plot, f diagram, style draw.LineStyle) error {
	line, dots, err := plotter.NewLinePoints(c.xys(f, f.value))
	if err != nil {
		return err
	}
	line.LineStyle = style
	dots.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: 2.2, Shape: draw.CircleGlyph{}}
	p.Add(line, dots)
	p.Legend.Add(c.name(), line, dots)
	if f.bound == nil {
		return nil
	}
	below, err := plotter.NewLine(c.xys(f, f.bound))
	if err != nil {
		return err
	}
	below.LineStyle = draw.LineStyle{Color: style.Color, Width: 1, Dashes: []vg.Length{1, 3}}
	p.Add(below)
	if len(c.points) > 1 {
		p.Legend.Add("   its containers, rearranged freely", below)
	}
	return nil
}

// newPlot returns an empty plot from 0 to 100 %.
func newPlot() *plot.Plot {
	p := figure.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 100, 0, 1
	var ticks plot.ConstantTicks
	for v := 0; v <= 100; v += 10 {
		ticks = append(ticks, plot.Tick{Value: float64(v), Label: strconv.Itoa(v)})
	}
	p.X.Tick.Marker = ticks
	return p
}

// xys returns the values of a curve. It omits points without sensitive containers if the diagram needs them.
func (c *curve) xys(f diagram, value func(*simulate.Result) float64) plotter.XYs {
	var list plotter.XYs
	for _, p := range c.points {
		if p.Sensitive > 0 || f.bound == nil {
			list = append(list, plotter.XY{X: 100 * p.Sensitive, Y: value(p)})
		}
	}
	return list
}

// subtitle describes the source of the figure.
func (r *Report) subtitle() string {
	s := &r.Setting
	text := s.Name
	if s.CoresOfLargest > 0 {
		text += fmt.Sprintf(", 1.0 = %g CPUs", s.CoresOfLargest)
	}
	return text + fmt.Sprintf(", overcommit %g, t = 0 placed by the scheduler, seed %d", s.Overcommit, s.Seed)
}
