package timescale

import (
	"fmt"

	"github.com/candor-project/candor/internal/figure"
)

// Plot draws a group's use over time, with a line for each window length and a line for the group's limit. The caller must
// have called Trace.
func (g *Group) Plot() *figure.Plot {
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
	if g.Quota > 0 {
		limit := float64(g.Quota) / float64(max(g.Period, 1))
		s := figure.Stroke{Color: 0xcf222e, Width: 1, Dashes: []float64{5, 3}}
		p.Line([]figure.Point{{X: g.From.Seconds(), Y: limit}, {X: g.To.Seconds(), Y: limit}}, s)
		p.Label("limit", s, 0)
	}
	return p
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
