package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
)

// SVG writes a plot as SVG. The SVG is self-contained, and its styles do not affect a page around
// it.
func SVG(w io.Writer, p *Plot) error { return p.draw(w, newSVG) }

// An svgCanvas collects the elements of an SVG.
type svgCanvas struct{ bytes.Buffer }

func newSVG(width, height float64) canvas {
	var c svgCanvas
	fmt.Fprintf(&c, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]spt" height="%[2]spt" viewBox="0 0 %[1]s %[2]s"`+
		` font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="%[3]s">`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n",
		coordinate(width), coordinate(height), coordinate(fontSize))
	return &c
}

func (c *svgCanvas) line(points []Point, s Stroke) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(c, `<polyline fill="none" stroke="#%06x" stroke-width="%s"`, uint32(s.Color), coordinate(s.Width))
	if len(s.Dashes) > 0 {
		c.WriteString(` stroke-dasharray="`)
		c.numbers(s.Dashes)
		c.WriteString(`"`)
	}
	c.WriteString(` points="`)
	for i, pt := range points {
		if i > 0 {
			c.WriteByte(' ')
		}
		c.numbers([]float64{pt.X, pt.Y})
	}
	c.WriteString("\"/>\n")
}

func (c *svgCanvas) numbers(list []float64) {
	for i, v := range list {
		if i > 0 {
			c.WriteByte(',')
		}
		c.WriteString(coordinate(v))
	}
}

func (c *svgCanvas) dot(center Point, radius float64, color Color) {
	fmt.Fprintf(c, `<circle cx="%s" cy="%s" r="%s" fill="#%06x"/>`+"\n", coordinate(center.X), coordinate(center.Y), coordinate(radius), uint32(color))
}

func (c *svgCanvas) text(at Point, anchor anchor, angle float64, color Color, s string) {
	x, y := coordinate(at.X), coordinate(at.Y)
	fmt.Fprintf(c, `<text x="%s" y="%s" fill="#%06x" text-anchor="%s"`, x, y, uint32(color), []string{"start", "middle", "end"}[anchor])
	if angle != 0 {
		fmt.Fprintf(c, ` transform="rotate(%s %s %s)"`, coordinate(-angle), x, y)
	}
	c.WriteByte('>')
	_ = xml.EscapeText(&c.Buffer, []byte(s)) // writes to a bytes.Buffer do not fail
	c.WriteString("</text>\n")
}

func (c *svgCanvas) writeTo(w io.Writer) error {
	c.WriteString("</svg>\n")
	_, err := w.Write(c.Bytes())
	return err
}

// coordinate formats a length with up to two decimals.
func coordinate(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
