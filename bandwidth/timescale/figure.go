package timescale

import (
	"fmt"

	"github.com/candor-project/candor/internal/figure"
)

// Plot draws a group's use over time, with a line for each window length, a line for the group's limit, and a line for the
// CPUs of the machine. The caller must have called Trace.
func (g *Group) Plot(machine int) *figure.Plot {
	p := figure.New()
	p.Title = fmt.Sprintf("%s\nmean %s CPUs", Printable(g.Name), Number(g.Mean()))
	p.X.Label, p.Y.Label = "seconds", "CPUs"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = g.From.Seconds(), g.To.Seconds(), 0, 0.1
	for i, points := range g.Points {
		if len(points.CPUs) == 0 {
			continue
		}
		name := Length(points.Window)
		if points.windowsPerPoint > 1 {
			name += fmt.Sprintf(", highest in %s", Length(points.Step()))
		}
		s := figure.Stroke{Color: figure.Colors[i], Width: 0.6 + 0.5*float64(i)}
		p.Line(g.steps(points), s)
		p.Label(name, s, 0)
	}
	g.plotBounds(p, machine)
	return p
}

// maxFree is the maximum ratio between a machine's CPUs and the highest value of a plot at which the plot contains the line
// of the machine. On a larger machine, the line would press the use against the X axis.
const maxFree = 5

// plotBounds draws the group's limit and the CPUs of the machine: as one line if they are equal.
func (g *Group) plotBounds(p *figure.Plot, machine int) {
	limit := 0.0
	if g.Quota > 0 {
		limit = float64(g.Quota) / float64(max(g.Period, 1))
	}
	cpus := float64(machine)
	limitStroke := figure.Stroke{Color: 0xcf222e, Width: 1, Dashes: []float64{5, 3}}
	machineStroke := figure.Stroke{Color: 0x1f2328, Width: 1, Dashes: []float64{9, 2, 2, 2}}
	if limit > 0 {
		p.Line([]figure.Point{{X: g.From.Seconds(), Y: limit}, {X: g.To.Seconds(), Y: limit}}, limitStroke)
		name := "limit"
		if limit == cpus {
			name = "limit = CPUs of the machine"
		}
		p.Label(name, limitStroke, 0)
	}
	switch {
	case machine <= 0 || limit == cpus:
	case cpus > maxFree*p.Y.Max:
		p.Label(fmt.Sprintf("CPUs of the machine: %d, above the plot", machine), figure.Stroke{}, 0)
	default:
		p.Line([]figure.Point{{X: g.From.Seconds(), Y: cpus}, {X: g.To.Seconds(), Y: cpus}}, machineStroke)
		p.Label("CPUs of the machine", machineStroke, 0)
	}
}

// steps returns the line of a series. The line is constant during the time that a point covers.
func (g *Group) steps(s *Series) []figure.Point {
	line := make([]figure.Point, 0, 2*len(s.CPUs))
	step := s.Step().Seconds()
	for i, v := range s.CPUs {
		at := g.From.Seconds() + float64(i)*step
		line = append(line, figure.Point{X: at, Y: v}, figure.Point{X: at + step, Y: v})
	}
	return line
}
