// Package figure draws charts as SVG and PNG: lines, dots, intervals and box plots over labeled axes, with a legend
// above them. Texts may come from untrusted names; the SVG escapes them.
//
// The package replaces gonum/plot, whose embedded fonts take 4 MB of a binary. It embeds one font of 150 KB, for
// the PNG; an SVG uses the fonts of its viewer.
package figure

import "math"

// A Plot collects marks in the coordinates of their data. Lengths on paper are in points of 1/72 inch.
type Plot struct {
	Title string // can have several lines
	X, Y  Axis

	marks    []mark
	legend   []entry
	strokes  []Stroke          // of the lines, in the order of the calls of Line
	segments map[segment][]int // indices of the lines with this segment, ascending
}

// A mark draws itself on a canvas. place converts coordinates of the data to coordinates of the canvas.
type mark func(c canvas, place func(Point) Point)

// An entry is a line of the legend with a sample of the mark.
type entry struct {
	name   string
	stroke Stroke  // width 0: no line
	radius float64 // 0: no dot
}

// A Point is a position.
type Point struct{ X, Y float64 }

// A Color is an RGB color as a number: 0xRRGGBB.
type Color uint32

// Colors are eight colors that readers with color blindness can distinguish.
var Colors = []Color{0x0969da, 0xd9730d, 0x1a9c56, 0xcf3f7e, 0x1b9aaa, 0x8250df, 0x24478f, 0x8a5a2b}

// A Stroke is the style of a line.
type Stroke struct {
	Color  Color
	Width  float64
	Dashes []float64 // lengths of a dash and a gap; nil: solid
}

// New returns an empty plot. Its axes grow with its marks.
func New() *Plot {
	empty := Axis{Min: math.Inf(1), Max: math.Inf(-1)}
	return &Plot{X: empty, Y: empty}
}

// Label adds a line to the legend: a sample of a line, of a dot if radius is not 0, and a name.
func (p *Plot) Label(name string, s Stroke, radius float64) {
	p.legend = append(p.legend, entry{name, s, radius})
}

// extend extends the axes to points, and returns the points that are finite.
func (p *Plot) extend(points []Point) (finite []Point) {
	for _, pt := range points {
		if !isFinite(pt.X) || !isFinite(pt.Y) {
			continue
		}
		finite = append(finite, pt)
		p.X.extend(pt.X)
		p.Y.extend(pt.Y)
	}
	return finite
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Dots adds a dot at each point. It skips points that are not finite.
func (p *Plot) Dots(points []Point, color Color, radius float64) {
	points = p.extend(points)
	p.marks = append(p.marks, func(c canvas, place func(Point) Point) {
		for _, pt := range points {
			c.dot(place(pt), radius, color)
		}
	})
}

// Interval adds a vertical line with a cap at each end.
func (p *Plot) Interval(x, low, high float64, color Color) {
	ends := p.extend([]Point{{x, low}, {x, high}})
	const width = 5
	p.marks = append(p.marks, func(c canvas, place func(Point) Point) {
		s := Stroke{Color: color, Width: 0.8}
		c.line(placeAll(ends, place), s)
		for _, end := range ends {
			drawCap(c, place(end), width, s)
		}
	})
}

// A Box is a box plot: a box from the first to the third quartile, a line at the median, and whiskers.
type Box struct {
	X             float64
	Width         float64 // on paper
	Color         Color
	Low, Quarter  float64 // end of the lower whisker, and first quartile
	Median        float64
	Quarter3, Top float64 // third quartile, and end of the upper whisker
}

// Box adds a box plot.
func (p *Plot) Box(b Box) {
	values := p.extend([]Point{{b.X, b.Low}, {b.X, b.Quarter}, {b.X, b.Median}, {b.X, b.Quarter3}, {b.X, b.Top}})
	if len(values) < 5 {
		return
	}
	p.marks = append(p.marks, func(c canvas, place func(Point) Point) {
		v := placeAll(values, place)
		thin, dashed := Stroke{Color: b.Color, Width: 0.8}, Stroke{Color: b.Color, Width: 0.6, Dashes: []float64{4, 2}}
		left, right := v[0].X-b.Width/2, v[0].X+b.Width/2
		c.line([]Point{{left, v[1].Y}, {right, v[1].Y}, {right, v[3].Y}, {left, v[3].Y}, {left, v[1].Y}}, thin)
		c.line([]Point{{left, v[2].Y}, {right, v[2].Y}}, Stroke{Color: b.Color, Width: 2})
		c.line([]Point{v[1], v[0]}, dashed)
		c.line([]Point{v[3], v[4]}, dashed)
		drawCap(c, v[0], b.Width*0.75, thin)
		drawCap(c, v[4], b.Width*0.75, thin)
	})
}

// drawCap draws the end of a whisker or an interval.
func drawCap(c canvas, at Point, width float64, s Stroke) {
	c.line([]Point{{at.X - width/2, at.Y}, {at.X + width/2, at.Y}}, s)
}

func placeAll(points []Point, place func(Point) Point) []Point {
	placed := make([]Point, len(points))
	for i, pt := range points {
		placed[i] = place(pt)
	}
	return placed
}
