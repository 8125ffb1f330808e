package tracereport

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/candor-project/candor/trace"
)

// svgStyle is a light style, or a dark style if the reader's system is dark. It has the same colors as the CPU map.
const svgStyle = `<style>
text{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2328}
.t{font-weight:600}.m{fill:#656d76}.e{text-anchor:end}.c{text-anchor:middle}
.bg{fill:#ffffff}.grid{stroke:#d0d7de}.full{stroke:#656d76;stroke-dasharray:2 4}.line{fill:none}.start{stroke-dasharray:6 4}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}.bg{fill:#0d1117}.grid{stroke:#3d444d}.full{stroke:#9198a1}}
</style>`

// lineColors are the colors of the traces.
var lineColors = [MaxTraces]string{"#0969da", "#d9730d", "#1a9c56", "#cf3f7e", "#8250df", "#1b9aaa"}

// Sizes in pixels.
const (
	width         = 820
	plotLeft      = 64
	plotRight     = width - 24
	loadTop       = 84
	loadBottom    = 284
	asksTop       = 354
	asksBottom    = 554
	height        = 600
	legendColumns = 3
	legendWidth   = 240
)

// MaxTraces is the maximum number of traces in a picture.
const MaxTraces = 6

// A drawing collects the elements of an SVG.
type drawing struct{ bytes.Buffer }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.Buffer, format, args...) }

func (d *drawing) text(x, y float64, class, s string) {
	d.printf(`<text x="%.0f" y="%.0f" class="%s">`, x, y, class)
	_ = xml.EscapeText(&d.Buffer, []byte(s)) // writes to a bytes.Buffer do not fail
	d.printf("</text>\n")
}

// SVG draws the load of up to MaxTraces traces over time, and the CPU requests of their containers.
func SVG(w io.Writer, summaries []*trace.Summary) error {
	var d drawing
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="load and requests of traces">`+"\n%s\n",
		width, height, width, height, svgStyle)
	d.printf(`<rect class="bg" width="%d" height="%d" rx="10"/>`+"\n", width, height)
	for i, title := range titles(summaries) {
		x, y := plotLeft+float64(i%legendColumns)*legendWidth, 20+float64(i/legendColumns)*18
		d.printf(`<rect x="%.0f" y="%.0f" width="14" height="4" fill="%s"/>`, x, y-6, lineColors[i])
		d.text(x+20, y, "t", title)
	}
	d.load(summaries)
	d.asks(summaries)
	d.printf("</svg>\n")
	_, err := w.Write(d.Bytes())
	return err
}

// load draws the ratio of requested CPU to capacity over time.
func (d *drawing) load(summaries []*trace.Summary) {
	top, hours := 1.0, 0.0
	for _, s := range summaries {
		for _, v := range ratios(s.Load, len(s.Load)) {
			top = max(top, v)
		}
		hours = max(hours, s.Header.Span.Seconds()/3600)
	}
	top = math.Ceil(top*5) / 5
	d.text(plotLeft, loadTop-16, "m", "requested CPU / capacity over time")
	y := func(v float64) float64 { return loadBottom - v/top*(loadBottom-loadTop) }
	step := 0.2 * math.Ceil(top/1.6)
	for v := 0.0; v < top+0.01; v += step {
		d.grid(y(v), fmt.Sprintf("%.0f %%", 100*v))
	}
	d.printf(`<line class="full" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotLeft, plotRight, y(1), y(1))
	d.text(plotLeft, loadBottom+20, "m", "0")
	d.text(plotRight, loadBottom+20, "m e", span(hours*3600))
	for i, s := range summaries {
		var line []float64
		load := ratios(s.Load, len(s.Load))
		for k, p := range s.Load {
			line = append(line, plotLeft+p.Seconds/3600/max(hours, 1e-9)*(plotRight-plotLeft), y(load[k]))
		}
		d.line(i, "line", line)
	}
}

// asks draws the quantiles of the containers' CPU requests on a logarithmic scale.
func (d *drawing) asks(summaries []*trace.Summary) {
	const least, most = 0.01, 100.0
	d.text(plotLeft, asksTop-16, "m", "CPU request in cores, by percentile: new containers; dashed: those that run at the start")
	y := func(v float64) float64 {
		share := math.Log(min(max(v, least), most)/least) / math.Log(most/least)
		return asksBottom - share*(asksBottom-asksTop)
	}
	x := func(percent float64) float64 { return plotLeft + percent/100*(plotRight-plotLeft) }
	for v := least; v <= most*1.01; v *= 10 {
		d.grid(y(v), short(v))
	}
	for _, percent := range []float64{1, 10, 25, 50, 75, 90, 99} {
		d.text(x(percent), asksBottom+20, "m c", fmt.Sprintf("p%.0f", percent))
	}
	for i, s := range summaries {
		for _, q := range []struct {
			class string
			trace.Quantiles
			n int64
		}{{"line", s.RequestNew, s.Containers.New}, {"line start", s.RequestHeld, s.Containers.Start}} {
			if q.n == 0 {
				continue
			}
			d.line(i, q.class, []float64{x(1), y(q.P1), x(5), y(q.P5), x(10), y(q.P10), x(25), y(q.P25), x(50), y(q.P50),
				x(75), y(q.P75), x(90), y(q.P90), x(95), y(q.P95), x(99), y(q.P99)})
		}
	}
}

// grid draws a horizontal line with its label.
func (d *drawing) grid(y float64, label string) {
	d.printf(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, plotRight, y, y)
	d.text(plotLeft-8, y+4, "m e", label)
}

// line draws a line through points, given as x, y, x, y and so on.
func (d *drawing) line(i int, class string, points []float64) {
	if len(points) == 0 {
		return
	}
	// Each line is thinner than the previous, so that equal lines remain visible.
	d.printf(`<polyline class="%s" stroke="%s" stroke-width="%.1f" points="`, class, lineColors[i], max(4.2-2.4*float64(i), 1.4))
	for p := range slices.Chunk(points, 2) {
		d.printf("%.1f,%.1f ", p[0], p[1])
	}
	d.printf("\"/>\n")
}
