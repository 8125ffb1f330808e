package expreport

import (
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/experiment"
	drawing "github.com/candor-project/candor/internal/figure"
)

// forms of a picture.
var forms = []struct {
	suffix string
	write  func(io.Writer, *plot.Plot) error
}{{".svg", drawing.SVG}, {".png", drawing.PNG}}

// draw draws a metric: for each set-up a box from the first to the third quarter with the median, whiskers to the
// last value within 1.5 times its height, and every run as a dot.
func (r Report) draw(w io.Writer, m experiment.ReportMetric, write func(io.Writer, *plot.Plot) error) error {
	p := drawing.New()
	p.Y.Label.Text = title(m)
	p.Y.Min = 0
	var names []string
	for i := range r.Setups {
		values, rounds := r.Values(i, m.Name)
		names = append(names, r.Setups[i].String())
		if len(values) == 0 {
			continue
		}
		if err := addBox(p, i, values, rounds); err != nil {
			return err
		}
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	return write(w, p)
}

// addBox adds one set-up's box and dots.
func addBox(p *plot.Plot, at int, values []float64, rounds []int) error {
	colour := drawing.Colours[at%len(drawing.Colours)]
	box, err := plotter.NewBoxPlot(vg.Points(34), float64(at), plotter.Values(values))
	if err != nil {
		return err
	}
	spread := experiment.SpreadOf(values) // the quarters of the tables: there are several ways to count them
	box.Quartile1, box.Median, box.Quartile3 = spread.Quarter, spread.Median, spread.Quarter3
	box.BoxStyle.Color, box.MedianStyle.Color, box.WhiskerStyle.Color = colour, colour, colour
	box.MedianStyle.Width = vg.Points(2)
	box.GlyphStyle.Radius = 0 // the dots show what is outside
	dots := make(plotter.XYs, len(values))
	for i, v := range values {
		// Beside each other in the order of the rounds, so that what drifts shows.
		dots[i] = plotter.XY{X: float64(at) - 0.12 + 0.24*float64(rounds[i]+1)/float64(rounds[len(rounds)-1]+2), Y: v}
	}
	scatter, err := plotter.NewScatter(dots)
	if err != nil {
		return err
	}
	scatter.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 1.6, Shape: draw.CircleGlyph{}}
	p.Add(box, scatter)
	return nil
}
