package timescale

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/internal/figure"
)

// Plot draws a group's use over time with a line for each length of the windows, and the group's limit. It requires
// Trace.
func (g *Group) Plot() (*plot.Plot, error) {
	p := figure.New()
	p.Title.Text = fmt.Sprintf("%s\nmean %s CPUs", Printable(g.Name), Number(g.Mean()))
	p.X.Label.Text, p.Y.Label.Text = "seconds", "CPUs"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = g.From.Seconds(), g.To.Seconds(), 0, 0.1
	lines := 0
	for i, points := range g.Points {
		if len(points.CPUs) == 0 {
			continue
		}
		lines++
		name := Length(points.Window)
		if points.each > 1 {
			name += fmt.Sprintf(", highest in %s", Length(points.Step()))
		}
		style := draw.LineStyle{Color: figure.Colors[i], Width: vg.Points(0.6 + 0.5*float64(i))}
		if err := figure.Line(p, name, g.steps(points), style); err != nil {
			return nil, err
		}
	}
	if g.Quota > 0 {
		lines++
		limit := float64(g.Quota) / float64(max(g.Period, 1))
		style := draw.LineStyle{Color: figure.RGB(0xcf222e), Width: 1, Dashes: []vg.Length{5, 3}}
		if err := figure.Line(p, "limit", plotter.XYs{{X: p.X.Min, Y: limit}, {X: p.X.Max, Y: limit}}, style); err != nil {
			return nil, err
		}
	}
	figure.AddMargin(p, lines)
	return p, nil
}

// steps returns a series as a line that is constant within a window.
func (g *Group) steps(s *Series) plotter.XYs {
	var line plotter.XYs
	step := s.Step().Seconds()
	for i, v := range s.CPUs {
		at := g.From.Seconds() + float64(i)*step
		line = append(line, plotter.XY{X: at, Y: v}, plotter.XY{X: at + step, Y: v})
	}
	return line
}
