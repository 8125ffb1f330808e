package expreport

import (
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/figure"
)

// draw draws the values of a metric. Each setup has a box from the first to the third quartile, with a line at the median. The
// whiskers extend to the last values within 1.5 times the box's height. Each run is a dot.
func (r Report) draw(m experiment.ReportMetric) *figure.Plot {
	p := figure.New()
	p.Y.Label = title(m)
	p.Y.Min = 0
	var names []string
	for i := range r.Setups {
		values, rounds := r.Values(i, m.Name)
		names = append(names, r.Setups[i].String())
		if len(values) > 0 {
			addBox(p, float64(i), boxStyle{figure.Colors[i%len(figure.Colors)], 34, 0.24, 1.6}, values, rounds)
		}
	}
	p.X.SetNames(names)
	return p
}

// A boxStyle is the appearance of a box and its dots.
type boxStyle struct {
	color     figure.Color
	width     float64 // width of the box, in points
	dotsWidth float64 // width of the area that contains the dots, in units of X
	radius    float64 // radius of a dot, in points
}

// addBox adds a box at X coordinate x, and a dot for each value in the order of the rounds, so that a drift is visible.
func addBox(p *figure.Plot, x float64, style boxStyle, values []float64, rounds []int) {
	spread := experiment.SpreadOf(values) // same definition of quartiles as in the tables
	box := figure.Box{
		X: x, Width: style.width, Color: style.color,
		Low: spread.Quarter, Quarter: spread.Quarter, Median: spread.Median, Quarter3: spread.Quarter3, Top: spread.Quarter3,
	}
	dots := make([]figure.Point, len(values))
	reach := 1.5 * (spread.Quarter3 - spread.Quarter)
	for i, v := range values {
		if v >= spread.Quarter-reach && v <= spread.Quarter3+reach {
			box.Low, box.Top = min(box.Low, v), max(box.Top, v)
		}
		share := float64(rounds[i]+1) / float64(rounds[len(rounds)-1]+2)
		dots[i] = figure.Point{X: x + style.dotsWidth*(share-0.5), Y: v}
	}
	p.Box(box)
	p.Dots(dots, style.color, style.radius)
}
