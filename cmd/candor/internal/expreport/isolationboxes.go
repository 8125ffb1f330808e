package expreport

import (
	"strings"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/figure"
)

// draw draws the times of an application like figure 5 of the study (docs/isolate.md). Each group of boxes belongs to a stressor,
// and each box in a group to a case. The first group has no stressor.
func (r Isolation) draw(app int) *figure.Plot {
	p := figure.New()
	p.Y.Label = "Time of " + strings.Map(printable, r.Applications[app].Name) + " in s"
	names := []string{"alone"}
	for _, s := range r.Stressors {
		names = append(names, s.Name)
	}
	var all []float64
	for c := range r.Cases {
		style := r.boxStyle(c, len(names))
		p.Label(string(r.Cases[c]), figure.Stroke{Color: style.color}, 3)
		for group := range names {
			times, rounds := r.Times(app, c, group-1)
			if len(times) == 0 {
				continue
			}
			all = append(all, times...)
			addBox(p, float64(group)+r.offset(c), style, times, rounds)
		}
	}
	p.X.SetNames(names)
	scaleTimes(&p.Y, experiment.SpreadOf(all))
	return p
}

// groupShare is the share of a group's width that its boxes take.
const groupShare = 0.8

// offset returns the offset of a case's box from the center of its group.
func (r Isolation) offset(c int) float64 {
	return groupShare * ((float64(c)+0.5)/float64(len(r.Cases)) - 0.5)
}

// boxStyle returns the appearance of a case's boxes, as wide as the space allows.
func (r Isolation) boxStyle(c, groups int) boxStyle {
	const plotWidth = 425 // in points
	space := groupShare / float64(len(r.Cases))
	return boxStyle{figure.Colors[c%len(figure.Colors)], min(0.75*space/float64(groups)*plotWidth, 34), 0.5 * space, 1}
}

// scaleTimes makes the axis logarithmic if the times differ so much that short times would be hard to tell apart. Otherwise the axis
// starts at 0.
func scaleTimes(axis *figure.Axis, times experiment.Spread) {
	if times.N > 0 && times.Max >= 4*times.Min && times.Min > 0 {
		axis.Log = true
		axis.Min /= 1.2
		return
	}
	axis.Min = 0
}
