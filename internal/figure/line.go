package figure

import "slices"

// A segment is a straight part of a line, between two consecutive points in the coordinates of the data.
type segment struct{ from, to Point }

// Line adds a line through points. It skips points that are not finite. Where several lines have the same segment, they take
// turns along the segment, so that each stays visible.
func (p *Plot) Line(points []Point, s Stroke) {
	points = slices.Compact(p.extend(points))
	line := len(p.strokes)
	p.strokes = append(p.strokes, s)
	if p.segments == nil {
		p.segments = map[segment][]int{}
	}
	for i := 1; i < len(points); i++ {
		at := segment{points[i-1], points[i]}
		if lines := p.segments[at]; !slices.Contains(lines, line) {
			p.segments[at] = append(lines, line)
		}
	}
	p.marks = append(p.marks, func(c canvas, place func(Point) Point) { p.drawLine(c, place, line, points) })
}

// drawLine draws a line in parts. All segments of a part belong to the same lines.
func (p *Plot) drawLine(c canvas, place func(Point) Point, line int, points []Point) {
	for len(points) > 1 {
		lines := p.linesAt(points)
		end := 2
		for end < len(points) && slices.Equal(p.linesAt(points[end-1:]), lines) {
			end++
		}
		c.line(placeAll(points[:end], place), p.turn(lines, line))
		points = points[end-1:]
	}
}

// linesAt returns the lines that contain the first segment of points.
func (p *Plot) linesAt(points []Point) []int { return p.segments[segment{points[0], points[1]}] }

// turnLength is the length on paper of a solid line's turn. The turn of a dashed line is one dash and its gap.
const turnLength = 8.0

// turn returns the stroke of a line on a segment that it shares with other lines. Each line draws in its own turn and skips
// the turns of the others.
func (p *Plot) turn(lines []int, line int) Stroke {
	s := p.strokes[line]
	if len(lines) == 1 {
		return s
	}
	var before, all float64
	for _, other := range lines {
		if other == line {
			before = all
		}
		all += p.strokes[other].turnLength()
	}
	dash := turnLength
	if len(s.Dashes) > 0 {
		dash = s.Dashes[0]
	}
	s.Dashes = []float64{0, before, dash, all - before - dash}
	if before == 0 {
		s.Dashes = s.Dashes[2:]
	}
	return s
}

func (s *Stroke) turnLength() float64 {
	if len(s.Dashes) < 2 {
		return turnLength
	}
	return s.Dashes[0] + s.Dashes[1]
}
