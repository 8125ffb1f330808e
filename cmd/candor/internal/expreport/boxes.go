package expreport

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/experiment"
	drawing "github.com/candor-project/candor/internal/figure"
)

// draw draws the values of a metric. Each setup has a box from the first to the third quartile with the median.
// Whiskers extend to the last value within 1.5 times the box's height. Each run is a dot.
func (r Report) draw(m experiment.ReportMetric) (*plot.Plot, error) {
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
		look := boxLook{drawing.Colors[i%len(drawing.Colors)], vg.Points(34), 0.24, 1.6}
		if err := addBox(p, float64(i), look, values, rounds); err != nil {
			return nil, err
		}
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	return p, nil
}

// A boxLook is the appearance of a box and its dots.
type boxLook struct {
	color  color.Color
	width  vg.Length
	across float64   // width of the dots, in units of X
	dot    vg.Length // radius
}

// addBox adds a box and its dots.
func addBox(p *plot.Plot, at float64, look boxLook, values []float64, rounds []int) error {
	box, err := plotter.NewBoxPlot(look.width, at, plotter.Values(values))
	if err != nil {
		return err
	}
	spread := experiment.SpreadOf(values) // the same quartiles as in the tables; there are several definitions
	box.Quartile1, box.Median, box.Quartile3 = spread.Quarter, spread.Median, spread.Quarter3
	box.BoxStyle.Color, box.MedianStyle.Color, box.WhiskerStyle.Color = look.color, look.color, look.color
	box.MedianStyle.Width = vg.Points(2)
	box.GlyphStyle.Radius = 0 // the dots show the outliers
	dots := make(plotter.XYs, len(values))
	for i, v := range values {
		// In the order of the rounds, so that a drift is visible.
		dots[i] = plotter.XY{X: at - look.across/2 + look.across*float64(rounds[i]+1)/float64(rounds[len(rounds)-1]+2), Y: v}
	}
	scatter, err := plotter.NewScatter(dots)
	if err != nil {
		return err
	}
	scatter.GlyphStyle = draw.GlyphStyle{Color: look.color, Radius: look.dot, Shape: draw.CircleGlyph{}}
	p.Add(box, scatter)
	return nil
}
