package figure

import (
	"io"
	"math"
	"strings"
)

// A canvas draws shapes. Its origin is the upper left corner.
type canvas interface {
	line(points []Point, s Stroke)
	dot(center Point, radius float64, color Color)
	// text draws a text. anchor selects the part of the text (start, middle or end) that is at the position. angle is in degrees,
	// counterclockwise.
	text(at Point, anchor anchor, angle float64, color Color, s string)
	writeTo(w io.Writer) error
}

// An anchor is the part of a text that is at its position.
type anchor int

const (
	start anchor = iota
	middle
	end
)

// Sizes on paper.
const (
	figureWidth = 482.0 // 17 cm
	plotHeight  = 250.0 // of the area between the axes
	margin      = 10.0
	fontSize    = 9.0
	lineHeight  = 13.0
	tickGap     = 4.0  // between an axis and its numbers
	sampleWidth = 20.0 // of the legend's marks
	legendGap   = 26.0 // between the columns of the legend
	maxNameArea = 90.0 // height of slanted names
	slant       = 30.0 // angle of names that are too long for a horizontal row
)

// The colors of texts and axes.
const (
	textColor Color = 0x1f2328
	axisColor Color = 0x656d76
	gridColor Color = 0xd8dee4
)

// A layout is the division of a figure's area.
type layout struct {
	height                   float64
	left, right, top, bottom float64 // of the area between the axes
	columns                  int     // of the legend
	columnWidth              float64
	isSlanted                bool // whether the names of the X axis are slanted
}

// layout returns the division of the area. The axes of the plot must have a range that can be drawn (Axis.fix).
func (p *Plot) layout() (l layout) {
	l.left, l.right = margin+tickGap, figureWidth-margin-8
	if p.Y.Label != "" {
		l.left += lineHeight
	}
	var widest float64
	for _, t := range p.Y.ticks() {
		widest = max(widest, textWidth(t.label))
	}
	l.left += widest
	for _, e := range p.legend {
		l.columnWidth = max(l.columnWidth, sampleWidth+6+textWidth(e.name))
	}
	l.columnWidth = min(l.columnWidth, l.right-l.left)
	l.columns = max(1, int((l.right-l.left+legendGap)/(l.columnWidth+legendGap)))
	rows := (len(p.legend) + l.columns - 1) / l.columns
	l.top = margin + lineHeight*float64(len(p.titleLines())+rows) + 6
	l.bottom = l.top + plotHeight
	l.height = l.bottom + tickGap + p.namesHeight(&l) + margin
	if p.X.Label != "" {
		l.height += lineHeight
	}
	return l
}

// namesHeight returns the height of the texts below the X axis. If a name is too wide for a horizontal row, it slants all names.
func (p *Plot) namesHeight(l *layout) float64 {
	var widest float64
	for _, name := range p.X.names {
		widest = max(widest, textWidth(name))
	}
	if p.X.names == nil || widest+6 <= (l.right-l.left)/(p.X.Max-p.X.Min) {
		return lineHeight
	}
	l.isSlanted = true
	return min(lineHeight+widest*math.Sin(slant*math.Pi/180), maxNameArea)
}

func (p *Plot) titleLines() []string {
	if p.Title == "" {
		return nil
	}
	return strings.Split(p.Title, "\n")
}

// draw draws a plot on a canvas, which newCanvas creates with the size of the plot, and writes the drawing to w.
func (p *Plot) draw(w io.Writer, newCanvas func(width, height float64) canvas) error {
	fixed := *p
	fixed.X, fixed.Y = p.X.fix(), p.Y.fix().round()
	l := fixed.layout()
	c := newCanvas(figureWidth, l.height)
	for i, line := range fixed.titleLines() {
		c.text(Point{(l.left + l.right) / 2, margin + fontSize + lineHeight*float64(i)}, middle, 0, textColor, fit(line, figureWidth-2*margin))
	}
	fixed.drawLegend(c, &l)
	fixed.drawY(c, &l)
	fixed.drawX(c, &l)
	place := func(pt Point) Point {
		return Point{l.left + fixed.X.share(pt.X)*(l.right-l.left), l.bottom - fixed.Y.share(pt.Y)*(l.bottom-l.top)}
	}
	for _, m := range p.marks {
		m(c, place)
	}
	return c.writeTo(w)
}

// drawLegend draws the legend in rows.
func (p *Plot) drawLegend(c canvas, l *layout) {
	for i, e := range p.legend {
		x := l.left + float64(i%l.columns)*(l.columnWidth+legendGap)
		y := margin + fontSize + lineHeight*float64(len(p.titleLines())+i/l.columns)
		center := Point{x + sampleWidth/2, y - fontSize/3}
		if e.stroke.Width > 0 {
			c.line([]Point{{x, center.Y}, {x + sampleWidth, center.Y}}, e.stroke)
		}
		if e.radius > 0 {
			c.dot(center, e.radius, e.stroke.Color)
		}
		c.text(Point{x + sampleWidth + 6, y}, start, 0, textColor, fit(e.name, l.columnWidth-sampleWidth-6))
	}
}

var (
	axisStroke = Stroke{Color: axisColor, Width: 0.6}
	gridStroke = Stroke{Color: gridColor, Width: 0.5}
)

// drawY draws the vertical axis with a horizontal line at each tick.
func (p *Plot) drawY(c canvas, l *layout) {
	for _, t := range p.Y.ticks() {
		y := l.bottom - p.Y.share(t.value)*(l.bottom-l.top)
		c.line([]Point{{l.left, y}, {l.right, y}}, gridStroke)
		c.text(Point{l.left - tickGap, y + fontSize/3}, end, 0, textColor, t.label)
	}
	c.line([]Point{{l.left, l.top}, {l.left, l.bottom}}, axisStroke)
	if p.Y.Label != "" {
		c.text(Point{margin + fontSize - 2, (l.top + l.bottom) / 2}, middle, 90, textColor, fit(p.Y.Label, l.height-2*margin))
	}
}

// drawX draws the horizontal axis with a vertical line at each number.
func (p *Plot) drawX(c canvas, l *layout) {
	for _, t := range p.X.ticks() {
		at := Point{l.left + p.X.share(t.value)*(l.right-l.left), l.bottom + tickGap + fontSize}
		switch {
		case l.isSlanted:
			room := min(maxNameArea/math.Sin(slant*math.Pi/180), (at.X-margin)/math.Cos(slant*math.Pi/180))
			c.text(Point{at.X + 3, at.Y}, end, slant, textColor, fit(t.label, 0.85*(room-lineHeight))) // the reader's font may be wider
		default:
			if p.X.names == nil {
				c.line([]Point{{at.X, l.top}, {at.X, l.bottom}}, gridStroke)
			}
			c.text(at, middle, 0, textColor, t.label)
		}
	}
	c.line([]Point{{l.left, l.bottom}, {l.right, l.bottom}}, axisStroke)
	if p.X.Label != "" {
		c.text(Point{(l.left + l.right) / 2, l.height - margin}, middle, 0, textColor, fit(p.X.Label, l.right-l.left))
	}
}
