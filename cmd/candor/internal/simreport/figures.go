package simreport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/simulate"
)

// Files returns the files of a report's folder: the table as CSV and Markdown, the report as JSON, and each figure of the paper as SVG and
// PNG.
func (r *Report) Files() []fileio.File {
	files := []fileio.File{{Name: "table.csv", Write: r.CSV}, {Name: "table.md", Write: r.Markdown}, {Name: "points.json", Write: r.JSON}}
	for _, f := range diagrams {
		files = append(files,
			fileio.File{Name: f.file + ".svg", Write: func(w io.Writer) error { return figure.SVG(w, r.draw(f)) }},
			fileio.File{Name: f.file + ".png", Write: func(w io.Writer) error { return figure.PNG(w, r.draw(f)) }})
	}
	return files
}

// A diagram is a figure of the paper. It shows a quantity as a function of the share of sensitive containers. Each curve has a second,
// dotted line.
type diagram struct {
	file, title, label string
	value              func(*simulate.Result) float64
	second             func(*simulate.Result) float64
	secondName         string
	isOfSensitive      bool // the quantity is not defined without sensitive containers
	isTime             bool // the quantity is a time in µs, on a logarithmic axis
}

const boundName = "its containers, rearranged freely"

var diagrams = []diagram{
	{file: "figure-4a-shared-time", title: "Shared time s", label: "s, % of the sensitive containers' CPU time", isOfSensitive: true,
		value:  func(r *simulate.Result) float64 { return 100 * r.S },
		second: func(r *simulate.Result) float64 { return 100 * r.SBound }, secondName: boundName},
	{file: "figure-4b-reject-rate", title: "Reject rate r", label: "r, % of the sensitive containers that found room", isOfSensitive: true,
		value:  func(r *simulate.Result) float64 { return 100 * r.R },
		second: func(r *simulate.Result) float64 { return 100 * r.RBound }, secondName: boundName},
	{file: "figure-5-decision-time", title: "Time of a decision", label: "median of all containers, µs", isTime: true,
		value:  func(r *simulate.Result) float64 { return 1e6 * r.DecisionP50 },
		second: func(r *simulate.Result) float64 { return 1e6 * r.DecisionP99 }, secondName: "its 99th percentile"},
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

// curveColors lists the colors for each algorithm. The number of a curve's scheduler (see style) selects the color.
var curveColors = map[string][]figure.Color{
	"candor": {0x0969da, 0x1a9c56, 0x1b9aaa, 0x24478f},
	"paper":  {0xd9730d, 0xcf3f7e, 0x8250df, 0x8a5a2b},
}

// style returns the line style of a curve. n is the index of the curve's scheduler among the schedulers of the curve's algorithm.
// Best-effort curves are dashed.
func (c *curve) style(n int) figure.Stroke {
	colors := curveColors[c.algorithm]
	s := figure.Stroke{Color: colors[n%len(colors)], Width: 1.8}
	if c.policy == "best-effort" {
		s.Dashes = []float64{6, 3}
	}
	return s
}

// draw draws a diagram.
func (r *Report) draw(d diagram) *figure.Plot {
	p := figure.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 100, 0, 1
	if d.isTime {
		p.Y.Log, p.Y.Min, p.Y.Max = true, 0.5, 20
	}
	p.Title = d.title + "\n" + r.subtitle()
	p.X.Label, p.Y.Label = "sensitive containers, %", d.label
	schedulers := map[string][]string{}
	curves := r.curves()
	shared := sharedSeconds(curves, d)
	for _, c := range curves {
		known := schedulers[c.algorithm]
		if !slices.Contains(known, c.scheduler) {
			known = append(known, c.scheduler)
			schedulers[c.algorithm] = known
		}
		c.draw(p, d, c.style(slices.Index(known, c.scheduler)), shared)
	}
	if shared {
		c := curves[0]
		c.drawSecond(p, d, "all curves: their "+strings.TrimPrefix(d.secondName, "its "), sharedColor)
	}
	return p
}

// sharedSeconds reports whether the second lines of all curves are the same, so that the diagram shows them as one line.
func sharedSeconds(curves []curve, d diagram) bool {
	for i := range curves {
		if !slices.Equal(curves[i].xys(d, d.second), curves[0].xys(d, d.second)) {
			return false
		}
	}
	return len(curves) > 1
}

// sharedColor is the color of a line that belongs to all curves.
const sharedColor figure.Color = 0x1f2328

// draw draws a curve, and its second line in the same color unless all curves share this line.
func (c *curve) draw(p *figure.Plot, d diagram, style figure.Stroke, sharesSecond bool) {
	const radius = 2.2
	values := c.xys(d, d.value)
	p.Line(values, style)
	p.Dots(values, style.Color, radius)
	p.Label(c.name(), style, radius)
	if !sharesSecond {
		c.drawSecond(p, d, d.secondName, style.Color)
	}
}

func (c *curve) drawSecond(p *figure.Plot, d diagram, name string, color figure.Color) {
	dotted := figure.Stroke{Color: color, Width: 1, Dashes: []float64{1, 3}}
	p.Line(c.xys(d, d.second), dotted)
	if len(c.points) > 1 {
		p.Label(name, dotted, 0)
	}
}

// xys returns the points of a curve in the diagram. It omits points for which the quantity of the diagram is not defined.
func (c *curve) xys(d diagram, value func(*simulate.Result) float64) []figure.Point {
	var list []figure.Point
	for _, p := range c.points {
		if p.Sensitive > 0 || !d.isOfSensitive {
			list = append(list, figure.Point{X: 100 * p.Sensitive, Y: value(p)})
		}
	}
	return list
}

// subtitle describes the trace and the settings of the simulation.
func (r *Report) subtitle() string {
	s := &r.Setting
	text := s.Name
	if s.CoresOfLargest > 0 {
		text += fmt.Sprintf(", 1.0 = %g CPUs", s.CoresOfLargest)
	}
	return text + fmt.Sprintf(", overcommit %g, t = 0 placed by the scheduler, seed %d", s.Overcommit, s.Seed)
}
