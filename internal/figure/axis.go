package figure

import (
	"math"
	"strconv"
)

// An Axis has a range that includes all marks, and ticks.
type Axis struct {
	Label    string // with the unit
	Min, Max float64
	Log      bool // logarithmic; requires Min > 0

	names []string // texts at 0, 1, …; nil: numbers
}

// A tick is a labeled position on an axis.
type tick struct {
	value float64
	label string
}

// SetNames labels the positions 0, 1, … with names, and sets the range.
func (a *Axis) SetNames(names []string) {
	a.names = names
	a.Min, a.Max = -0.6, float64(len(names))-0.4
}

// extend includes a value in the range.
func (a *Axis) extend(v float64) { a.Min, a.Max = min(a.Min, v), max(a.Max, v) }

// fix returns a range that can be drawn: finite, not empty, and positive if logarithmic.
func (a Axis) fix() Axis {
	if a.Min > a.Max || !isFinite(a.Min) || !isFinite(a.Max) {
		a.Min, a.Max = 0, 1
	}
	if a.Log && a.Min <= 0 {
		a.Log = false
	}
	if a.Min == a.Max {
		a.Min, a.Max = a.Min-1, a.Max+1
		a.Log = a.Log && a.Min > 0
	}
	return a
}

// round extends the range of a linear axis to the next ticks.
func (a Axis) round() Axis {
	if a.Log {
		return a
	}
	step := a.step()
	a.Min, a.Max = step*math.Floor(a.Min/step+1e-9), step*math.Ceil(a.Max/step-1e-9)
	return a
}

// share returns the position of a value: 0 at Min, 1 at Max.
func (a *Axis) share(v float64) float64 {
	if a.Log {
		return math.Log(max(v, a.Min)/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}

// step returns the distance between two ticks: the smallest of 1, 2 and 5 times a power of ten that divides the range into at most ten
// parts.
func (a *Axis) step() float64 {
	least := (a.Max - a.Min) / 10
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= least*(1-1e-9) {
			return digit * power
		}
	}
	return 10 * power
}

// ticks returns the ticks of the range.
func (a *Axis) ticks() (list []tick) {
	switch {
	case a.names != nil:
		for i, name := range a.names {
			list = append(list, tick{float64(i), name})
		}
	case a.Log:
		for power := math.Floor(math.Log10(a.Min)); power <= math.Ceil(math.Log10(a.Max)); power++ {
			for _, digit := range []float64{1, 2, 5} {
				if v := digit * math.Pow(10, power); v >= a.Min && v <= a.Max {
					list = append(list, tick{v, strconv.FormatFloat(v, 'g', 3, 64)})
				}
			}
		}
	default:
		step := a.step()
		first, last := math.Ceil(a.Min/step-1e-9), math.Floor(a.Max/step+1e-9)
		for i := range int(last-first) + 1 {
			v := (first + float64(i)) * step
			list = append(list, tick{v, number(v, step, max(math.Abs(a.Min), math.Abs(a.Max)))})
		}
	}
	return list
}

// number formats a value of an axis with the decimals that its step needs.
func number(v, step, largest float64) string {
	if largest >= 1e7 || step < 1e-6 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, -int(math.Floor(math.Log10(step)+1e-9))), 64)
}
