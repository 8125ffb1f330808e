package cpumap

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"

	"github.com/candor-project/candor/hybrid"
)

// svgPalette lists the containers' colors. They have the same hues as the terminal's colors in palette.
var svgPalette = []string{"#5fafff", "#ffaf5f", "#87d787", "#ff87af", "#5fd7d7", "#d7afff",
	"#ffd75f", "#d7af87", "#87afff", "#afd787", "#d78787", "#afafd7"}

// SVGStyle is the style sheet of a picture: light, or dark if the reader's system is dark. It includes a background, because the
// page around the picture may be dark in a light system, or light in a dark system.
const SVGStyle = `text{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2328}
.n{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
.t{font-weight:600}.m{fill:#656d76}.on{fill:#14181d}.id{font-size:9px}.e{text-anchor:end}.c{text-anchor:middle}
.bg{fill:#ffffff}.panel{fill:#f6f8fa;stroke:#d0d7de}.l3{fill:none;stroke:#d0d7de;stroke-dasharray:3 3}
.core{fill:#ffffff;stroke:#d0d7de}.shared{fill:#e7ebef}.free{fill:#ffffff}.off{fill:#d0d7de}.hatch{stroke:#8c959f}.rule{stroke:#d0d7de}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}.on{fill:#14181d}.bg{fill:#0d1117}.panel{fill:#151b23;stroke:#3d444d}
.l3{stroke:#3d444d}.core{fill:#0d1117;stroke:#3d444d}.shared{fill:#2a313c}.free{fill:#0d1117}.off{fill:#2a313c}.hatch{stroke:#656c76}.rule{stroke:#3d444d}}`

// A drawing collects the elements of an SVG.
type drawing struct {
	buf  bytes.Buffer
	cell cellSize
}

// cellSize is the size of a CPU in pixels.
type cellSize struct {
	w, h int
	ids  bool // whether the ID fits
}

// cellSizes lists the sizes, the largest first. The last size applies if no size fits.
var cellSizes = []cellSize{{72, 36, true}, {56, 32, true}, {40, 26, true}, {30, 22, true}, {20, 16, false}, {13, 13, false}}

// Sizes in pixels. The drawing of the CPUs exceeds svgWidth and svgHeight only with the smallest cells.
const (
	svgWidth  = 900
	svgHeight = 620
	margin    = 24
	minWidth  = 640 // minimum width, for the legend
)

// SVG writes the map with its legend as a picture that is readable in light and in dark mode.
func (m *Map) SVG(w io.Writer) error { return m.writeSVG(w, "<style>\n"+SVGStyle+"\n</style>\n") }

// UnstyledSVG writes the picture of SVG without its style sheet. The reader must apply SVGStyle: it is for pages whose
// Content-Security-Policy refuses style elements.
func (m *Map) UnstyledSVG(w io.Writer) error { return m.writeSVG(w, "") }

// writeSVG writes the picture with a style element.
func (m *Map) writeSVG(w io.Writer, style string) error {
	cells := m.cells()
	all := blocks(m.Machine, cells)
	var d drawing
	var machine box
	for _, d.cell = range cellSizes {
		machine = d.machine(all)
		if machine.w <= svgWidth && machine.h <= svgHeight {
			break
		}
	}
	width := max(machine.w, minWidth) + 2*margin
	const top = margin + 24
	body := d.legendHeight(m)
	height := top + machine.h + body + margin
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="CPU map">`+"\n",
		width, height, width, height)
	d.printf("%s%s\n", style, d.patterns())
	d.printf(`<rect class="bg" width="%d" height="%d" rx="10"/>`+"\n", width, height)
	d.text(margin, margin+6, "m", summary(m.Machine))
	machine.draw((width-machine.w)/2, top)
	d.legend(m, top+machine.h, width)
	d.printf("</svg>\n")
	_, err := w.Write(d.buf.Bytes())
	return err
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.buf, format, args...) }

// text draws a line of text. The caller must have cleaned the names in the text (Clean).
func (d *drawing) text(x, y int, class, s string) {
	d.printf(`<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, escape(s))
}

// escape makes text safe inside XML.
func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writes to a bytes.Buffer do not fail
	return b.String()
}

// patterns returns the fill patterns of reserved and isolated CPUs, and the rounded outline of a CPU.
func (d *drawing) patterns() string {
	return fmt.Sprintf(`<defs><clipPath id="cpu"><rect width="%d" height="%d" rx="3"/></clipPath>`+
		`<pattern id="reserved" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="off" width="6" height="6"/><line class="hatch" y2="6" stroke-width="3"/></pattern>`+
		`<pattern id="isolated" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="off" width="6" height="6"/><path class="hatch" d="M0 0L6 6M6 0L0 6"/></pattern></defs>`,
		d.cell.w, d.cell.h)
}

// cpu draws a CPU.
func (d *drawing) cpu(c *cell, x, y int) {
	d.printf(`<g transform="translate(%d %d)" clip-path="url(#cpu)"><title>%s</title>`, x, y, escape(c.describe()))
	class := ` class="shared"`
	switch {
	case c.pool == reserved || c.pool == isolated:
		class = fmt.Sprintf(` fill="url(#%s)"`, c.pool)
	case c.pool == fractional && !c.flexible:
		class = ` class="free"`
	}
	d.printf(`<rect%s width="%d" height="%d"/>`, class, d.cell.w, d.cell.h)
	var used hybrid.Milli
	for _, p := range c.parts {
		from, to := scale(used, d.cell.w), scale(used+p.milli, d.cell.w)
		used += p.milli
		d.printf(`<rect fill="%s" x="%s" width="%s" height="%d"/>`, svgPalette[p.tag%len(svgPalette)], number(from), number(to-from), d.cell.h)
		if to-from >= 12 {
			d.printf(`<text class="n on c" x="%s" y="%d">%s</text>`, number(d.letterAt(from, to)), d.letterLine(), p.letter(c.pool))
		}
	}
	if d.cell.ids {
		class := "id m"
		if len(c.parts) > 0 {
			class = "id on"
		}
		d.printf(`<text class="%s" x="3" y="9">%d</text>`, class, c.cpu)
	}
	if c.hasForeign {
		d.printf(`<circle cx="%d" cy="6" r="3" fill="#cf222e"/>`, d.cell.w-6)
	}
	d.printf("</g>\n")
}

// letterAt returns the x coordinate of a container's letter. The letter is in the middle of the container's part of a CPU, or at
// the right end of the part if the CPU's ID takes much of the width.
func (d *drawing) letterAt(from, to float64) float64 {
	if d.cell.ids && d.cell.w < 48 {
		return to - 7
	}
	return (from + to) / 2
}

// letterLine returns the y coordinate of the baseline of a container's letter in a CPU.
func (d *drawing) letterLine() int {
	if d.cell.ids {
		return d.cell.h - 4 - d.cell.h/8
	}
	return d.cell.h/2 + 4
}

// scale returns the width in pixels of a part of a CPU.
func scale(m hybrid.Milli, width int) float64 { return float64(m) * float64(width) / 1000 }

// number formats a length with at most one decimal.
func number(f float64) string { return fmt.Sprintf("%g", math.Round(f*10)/10) }
