package figure

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// dpi is the resolution of a PNG, and scale is the number of pixels per point.
const (
	dpi   = 144
	scale = dpi / 72.0
)

// PNG writes a plot as PNG.
func PNG(w io.Writer, p *Plot) error { return p.draw(w, newPNG) }

// A pngCanvas draws filled polygons in an image.
type pngCanvas struct{ *image.RGBA }

func newPNG(width, height float64) canvas {
	c := pngCanvas{image.NewRGBA(image.Rect(0, 0, int(math.Ceil(width*scale)), int(math.Ceil(height*scale))))}
	draw.Draw(c, c.Bounds(), image.White, image.Point{}, draw.Src)
	return c
}

// A contour is a closed path in pixels. A pngCanvas fills all contours of a shape at once; overlapping contours of the same
// direction form a union.
type contour []Point

func (c pngCanvas) fill(shape []contour, color Color) {
	low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, path := range shape {
		for _, pt := range path {
			low, high = Point{min(low.X, pt.X), min(low.Y, pt.Y)}, Point{max(high.X, pt.X), max(high.Y, pt.Y)}
		}
	}
	if low.X > high.X {
		return
	}
	area := image.Rect(int(math.Floor(low.X)), int(math.Floor(low.Y)), int(math.Ceil(high.X))+1, int(math.Ceil(high.Y))+1)
	if area.Intersect(c.Bounds()).Empty() {
		return
	}
	r := vector.NewRasterizer(area.Dx(), area.Dy())
	for _, path := range shape {
		for i, pt := range path {
			x, y := float32(pt.X-float64(area.Min.X)), float32(pt.Y-float64(area.Min.Y))
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	r.Draw(c, area, image.NewUniform(rgba(color)), image.Point{})
}

func rgba(c Color) color.RGBA { return color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255} }

func (c pngCanvas) line(points []Point, s Stroke) {
	var shape []contour
	half := s.Width / 2 * scale
	for _, dash := range dashes(points, s.Dashes) {
		for i, b := range dash {
			b := Point{b.X * scale, b.Y * scale}
			if i > 0 {
				a := Point{dash[i-1].X * scale, dash[i-1].Y * scale}
				if n := math.Hypot(b.X-a.X, b.Y-a.Y); n > 0 {
					dx, dy := (b.X-a.X)/n*half, (b.Y-a.Y)/n*half
					shape = append(shape, contour{{a.X - dy, a.Y + dx}, {a.X + dy, a.Y - dx}, {b.X + dy, b.Y - dx}, {b.X - dy, b.Y + dx}})
				}
			}
			if i > 0 && i < len(dash)-1 {
				shape = append(shape, circle(b, half))
			}
		}
	}
	c.fill(shape, s.Color)
}

// dashes returns the parts of a line that are drawn.
func dashes(points []Point, lengths []float64) (parts [][]Point) {
	if len(lengths) == 0 || len(points) == 0 {
		return [][]Point{points}
	}
	part, k, left := []Point{points[0]}, 0, lengths[0]
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		for n := math.Hypot(b.X-a.X, b.Y-a.Y); n > left; n = math.Hypot(b.X-a.X, b.Y-a.Y) {
			a = Point{a.X + (b.X-a.X)*left/n, a.Y + (b.Y-a.Y)*left/n}
			if k%2 == 0 {
				parts = append(parts, append(part, a))
			}
			part = []Point{a}
			k++
			left = lengths[k%len(lengths)]
		}
		left -= math.Hypot(b.X-a.X, b.Y-a.Y)
		part = append(part, b)
	}
	if k%2 == 0 {
		parts = append(parts, part)
	}
	return parts
}

// circle returns a circle with the same direction as the contours of a line, so that they form a union.
func circle(center Point, radius float64) contour {
	const corners = 20
	path := make(contour, corners)
	for i := range path {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		path[i] = Point{center.X + radius*cos, center.Y + radius*sin}
	}
	return path
}

func (c pngCanvas) dot(center Point, radius float64, color Color) {
	c.fill([]contour{circle(Point{center.X * scale, center.Y * scale}, radius*scale)}, color)
}

func (c pngCanvas) text(at Point, anchor anchor, angle float64, color Color, s string) {
	sin, cos := math.Sincos(angle * math.Pi / 180)
	x := -textWidth(s) * float64(anchor) / 2 * scale
	var buffer sfnt.Buffer
	var shape []contour
	for _, char := range s {
		glyph, _ := regular().GlyphIndex(&buffer, char) // 0, the sign of a missing glyph, if there is an error
		outline, err := regular().LoadGlyph(&buffer, glyph, fixed.Int26_6(fontSize*scale*64), nil)
		if err != nil {
			continue
		}
		shape = append(shape, contours(outline, func(pt Point) Point {
			return Point{at.X*scale + (x+pt.X)*cos + pt.Y*sin, at.Y*scale - (x+pt.X)*sin + pt.Y*cos}
		})...)
		advance, _ := regular().GlyphAdvance(&buffer, glyph, fixed.Int26_6(fontSize*scale*64), font.HintingNone)
		x += float64(advance) / 64
	}
	c.fill(shape, color)
}

// contours converts the outline of a glyph, and replaces its curves by lines.
func contours(outline sfnt.Segments, place func(Point) Point) (list []contour) {
	var last Point
	for _, s := range outline {
		p := func(i int) Point { return Point{float64(s.Args[i].X) / 64, float64(s.Args[i].Y) / 64} }
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			last = p(0)
			list = append(list, contour{place(last)})
		case sfnt.SegmentOpLineTo:
			last = p(0)
			list[len(list)-1] = append(list[len(list)-1], place(last))
		case sfnt.SegmentOpQuadTo: // TrueType has no cubic curves
			const steps = 4
			for i := 1; i <= steps; i++ {
				t := float64(i) / steps
				u := 1 - t
				pt := Point{u*u*last.X + 2*u*t*p(0).X + t*t*p(1).X, u*u*last.Y + 2*u*t*p(0).Y + t*t*p(1).Y}
				list[len(list)-1] = append(list[len(list)-1], place(pt))
			}
			last = p(1)
		}
	}
	return list
}

func (c pngCanvas) writeTo(w io.Writer) error { return png.Encode(w, c) }
