package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
)

// SVG writes a plot as SVG, in light colors, or in dark colors if the reader's system is dark. The SVG is self-contained, and its
// styles do not affect a page around it.
func SVG(w io.Writer, p *Plot) error { return p.draw(w, newSVG) }

// svgClass is the class of the pictures. It limits their styles to them.
const svgClass = "candor-figure"

// svgFonts are the fonts of the pictures, as in the CPU map and in the pictures of traces.
const svgFonts = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"

const backgroundColor Color = 0xffffff

// darkColors are the colors on a dark background.
var darkColors = []struct{ light, dark Color }{
	{backgroundColor, 0x0d1117}, {0x000000, 0xe6edf3}, {textColor, 0xe6edf3}, {axisColor, 0x9198a1}, {gridColor, 0x3d444d},
	{0x0969da, 0x4493f8}, {0xd9730d, 0xf0883e}, {0x1a9c56, 0x3fb950}, {0xcf3f7e, 0xf778ba}, {0x1b9aaa, 0x39c5cf},
	{0x8250df, 0xab7df8}, {0x24478f, 0xa5c8ff}, {0x8a5a2b, 0xc9986a}, {0xcf222e, 0xff7b72},
}

// An svgCanvas collects the elements of an SVG.
type svgCanvas struct {
	bytes.Buffer
	used map[Color]bool // colors of the elements
}

func newSVG(width, height float64) canvas {
	c := svgCanvas{used: map[Color]bool{backgroundColor: true}}
	fmt.Fprintf(&c, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]spt" height="%[2]spt" viewBox="0 0 %[1]s %[2]s"`+
		` class="%[4]s" font-family="%[5]s" font-size="%[3]s">`+"\n"+`<rect width="100%%" height="100%%" fill="#%06[6]x"/>`+"\n",
		coordinate(width), coordinate(height), coordinate(fontSize), svgClass, svgFonts, uint32(backgroundColor))
	return &c
}

func (c *svgCanvas) line(points []Point, s Stroke) {
	if len(points) < 2 {
		return
	}
	c.used[s.Color] = true
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
	c.used[color] = true
	fmt.Fprintf(c, `<circle cx="%s" cy="%s" r="%s" fill="#%06x"/>`+"\n", coordinate(center.X), coordinate(center.Y), coordinate(radius), uint32(color))
}

func (c *svgCanvas) text(at Point, anchor anchor, angle float64, color Color, s string) {
	c.used[color] = true
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
	c.WriteString("<style>\n@media(prefers-color-scheme:dark){\n")
	for _, pair := range darkColors {
		if c.used[pair.light] {
			fmt.Fprintf(c, ".%[1]s [fill=\"#%06[2]x\"]{fill:#%06[3]x}.%[1]s [stroke=\"#%06[2]x\"]{stroke:#%06[3]x}\n", svgClass, uint32(pair.light), uint32(pair.dark))
		}
	}
	c.WriteString("}\n</style>\n</svg>\n")
	_, err := w.Write(c.Bytes())
	return err
}

// coordinate formats a length with up to two decimals.
func coordinate(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
