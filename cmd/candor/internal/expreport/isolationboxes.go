package expreport

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/experiment"
	drawing "github.com/candor-project/candor/internal/figure"
)

// draw draws the times of an application like figure 5 of the study. Each group of boxes is a stressor, and each box
// in a group is a case. The first group has no stressor.
func (r Isolation) draw(app int) (*plot.Plot, error) {
	p := drawing.New()
	p.Y.Label.Text = "Time of " + strings.Map(plain, r.Applications[app].Name) + " in s"
	names := []string{"alone"}
	for _, s := range r.Stressors {
		names = append(names, s.Name)
	}
	var all []float64
	for c := range r.Cases {
		if err := addThumbnail(p, c, string(r.Cases[c])); err != nil {
			return nil, err
		}
		for group := range names {
			times, rounds := r.Times(app, c, group-1)
			if len(times) == 0 {
				continue
			}
			all = append(all, times...)
			if err := addBox(p, float64(group)+r.place(c), r.look(c, len(names)), times, rounds); err != nil {
				return nil, err
			}
		}
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	scaleTimes(p, experiment.SpreadOf(all), len(r.Cases))
	return p, nil
}

// groupShare is the share of a group's width that its boxes take.
const groupShare = 0.8

// place returns the offset of a case's box from the center of its group.
func (r Isolation) place(c int) float64 {
	return groupShare * ((float64(c)+0.5)/float64(len(r.Cases)) - 0.5)
}

// look returns the appearance of a case's boxes, as wide as the space allows.
func (r Isolation) look(c, groups int) boxLook {
	const plotWidth = 15 * vg.Centimeter
	room := groupShare / float64(len(r.Cases))
	width := min(vg.Length(0.75*room/float64(groups))*plotWidth, vg.Points(34))
	return boxLook{drawing.Colors[c%len(drawing.Colors)], width, 0.5 * room, 1}
}

// addThumbnail adds a case to the legend.
func addThumbnail(p *plot.Plot, c int, name string) error {
	dot, err := plotter.NewScatter(plotter.XYs{{}})
	if err != nil {
		return err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: drawing.Colors[c%len(drawing.Colors)], Radius: 3, Shape: draw.BoxGlyph{}}
	p.Legend.Add(name, dot)
	return nil
}

// scaleTimes starts the axis at 0. If the longest time would flatten the others, it makes the axis logarithmic.
func scaleTimes(p *plot.Plot, times experiment.Spread, legend int) {
	if times.N == 0 {
		p.Y.Min, p.Y.Max = 0, 1
	} else if times.Max < 4*times.Min {
		p.Y.Min, p.Y.Max = 0, times.Max
	} else {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		low, high := times.Min/1.2, times.Max
		p.Y.Min, p.Y.Max = low, low*math.Pow(high/low, 1/max(1-0.045*float64(legend+1), 0.3))
		return
	}
	drawing.AddMargin(p, legend)
}

// logTicks places ticks at 1, 2 and 5 times each power of ten.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * math.Pow(10, power); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 3, 64)})
			}
		}
	}
	return ticks
}
