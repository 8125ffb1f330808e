package figure

import (
	"bytes"
	"encoding/xml"
	"image/color"
	"image/png"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// lines is a plot with a title, a legend in rows, dashes, dots and numbers on both axes.
func lines() *Plot {
	p := New()
	p.Title = "Shared time\n<script>&\x00"
	p.X.Label, p.Y.Label = "sensitive, %", "s, % of the time"
	p.X.Min, p.X.Max, p.Y.Min = 0, 100, 0
	for i, name := range []string{"solid", "dashed", "a long name that takes much of a row of the legend", "dotted"} {
		s := Stroke{Color: Colors[i], Width: 1.8, Dashes: [][]float64{nil, {6, 3}, nil, {1, 3}}[i]}
		points := []Point{{0, float64(i)}, {40, 10 + 7*float64(i)}, {100, 12 + 15*float64(i)}, {50, math.NaN()}}
		p.Line(points, s)
		p.Dots(points, s.Color, 2.2)
		p.Label(name, s, 2.2)
	}
	return p
}

// boxes is a plot with box plots and intervals on a logarithmic axis, and names that are too wide for a row.
func boxes() *Plot {
	p := New()
	p.Y.Label, p.Y.Log = "seconds", true
	names := []string{"alone", "beside a stressor of the memory", "<b>beside</b> a stressor of the disk", strings.Repeat("long ", 30), "last"}
	for i := range names {
		v := math.Pow(4, float64(i))
		p.Box(Box{X: float64(i), Width: 20, Color: Colors[i], Low: v, Quarter: 1.2 * v, Median: 1.5 * v, Quarter3: 1.6 * v, Top: 2 * v})
		p.Interval(float64(i)+0.3, v, 2*v, Colors[i])
	}
	p.X.SetNames(names)
	return p
}

func TestSVG(t *testing.T) {
	for name, p := range map[string]*Plot{"lines": lines(), "boxes": boxes(), "empty": New()} {
		var out bytes.Buffer
		if err := SVG(&out, p); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name+".svg", out.String())
		if err := xml.Unmarshal(out.Bytes(), new(struct{})); err != nil || strings.Contains(out.String(), "<script") || strings.Contains(out.String(), "<b>") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The PNG has the same marks at the same positions as the SVG, twice as large.
func TestPNG(t *testing.T) {
	p := New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 10, 0, 10
	p.Line([]Point{{0, 5}, {10, 5}}, Stroke{Color: 0xff0000, Width: 4, Dashes: []float64{50, 50}})
	p.Dots([]Point{{5, 8}}, 0x0000ff, 5)
	p.Label("name", Stroke{}, 0)
	var out bytes.Buffer
	if err := PNG(&out, p); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	l := p.layout()
	if b := img.Bounds(); b.Dx() != 2*figureWidth || b.Dy() != int(math.Ceil(2*l.height)) {
		t.Errorf("size %v", b)
	}
	y := l.bottom - plotHeight/2
	red, blue, white := color.RGBA{255, 0, 0, 255}, color.RGBA{0, 0, 255, 255}, color.RGBA{255, 255, 255, 255}
	for _, c := range []struct {
		name string
		at   Point
		want color.Color
	}{
		{"dash", Point{l.left + 20, y}, red},
		{"gap", Point{l.left + 70, y - 3}, white},
		{"second dash", Point{l.left + 130, y}, red},
		{"dot", Point{(l.left + l.right) / 2, l.bottom - 0.8*plotHeight}, blue},
		{"margin", Point{3, 3}, white},
	} {
		if got := img.At(int(c.at.X*scale), int(c.at.Y*scale)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var dark int
	for x := range 200 {
		for y := range 40 {
			if r, _, _, _ := img.At(x, y).RGBA(); r < 0x6000 {
				dark++
			}
		}
	}
	if dark < 20 {
		t.Errorf("%d dark pixels in the legend's text", dark)
	}
}

func TestPNGOfEveryMark(t *testing.T) {
	for _, p := range []*Plot{lines(), boxes(), New()} {
		if err := PNG(io.Discard, p); err != nil {
			t.Error(err)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis Axis
		want string
	}{
		{Axis{Min: 0, Max: 10}, "0 1 2 3 4 5 6 7 8 9 10"},
		{Axis{Min: 0, Max: 0.31}, "0.00 0.05 0.10 0.15 0.20 0.25 0.30"},
		{Axis{Min: -3, Max: 12}, "-2 0 2 4 6 8 10 12"},
		{Axis{Min: 0, Max: 3e7}, "0 5e+06 1e+07 1.5e+07 2e+07 2.5e+07 3e+07"},
		{Axis{Min: 0.4, Max: 30, Log: true}, "0.5 1 2 5 10 20"},
		{Axis{Min: 0, Max: 4, Log: true}, "0.0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0"},
		{Axis{Min: 2, Max: 2}, "1.0 1.2 1.4 1.6 1.8 2.0 2.2 2.4 2.6 2.8 3.0"},
		{Axis{Min: math.Inf(1), Max: math.Inf(-1)}, "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0"},
	} {
		fixed := c.axis.fix()
		var labels []string
		for _, tick := range fixed.ticks() {
			labels = append(labels, tick.label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.axis, got, c.want)
		}
	}
}

func TestDashes(t *testing.T) {
	line := []Point{{0, 0}, {10, 0}, {10, 10}}
	got := dashes(line, []float64{4, 3})
	want := [][]Point{{{0, 0}, {4, 0}}, {{7, 0}, {10, 0}, {10, 1}}, {{10, 4}, {10, 8}}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		for k, pt := range want[i] {
			if d := math.Hypot(got[i][k].X-pt.X, got[i][k].Y-pt.Y); d > 1e-9 {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
	if got := dashes(line, nil); len(got) != 1 || len(got[0]) != 3 {
		t.Errorf("solid: %v", got)
	}
}

func TestFit(t *testing.T) {
	if got := fit("short", 100); got != "short" {
		t.Error(got)
	}
	if got := fit(strings.Repeat("x", 100), 100); !strings.HasSuffix(got, "x…") || textWidth(got) > 100 {
		t.Errorf("%s: width %g", got, textWidth(got))
	}
}

// strokeCanvas records the lines that a plot draws in the area between the axes.
type strokeCanvas struct {
	canvas
	strokes map[Color][]Stroke
}

func (c *strokeCanvas) line(points []Point, s Stroke) {
	c.strokes[s.Color] = append(c.strokes[s.Color], s)
}

// TestLinesOnTheSameSegment: lines that are exactly over each other take turns, only where they coincide.
func TestLinesOnTheSameSegment(t *testing.T) {
	p := New()
	p.Line([]Point{{0, 0}, {1, 0}, {2, 0}, {3, 1}}, Stroke{Color: 1, Width: 2})
	p.Line([]Point{{0, 0}, {1, 0}, {2, 0}, {3, 2}}, Stroke{Color: 2, Width: 2, Dashes: []float64{6, 3}})
	p.Line([]Point{{1, 0}, {2, 0}, {2, 0}}, Stroke{Color: 3, Width: 2})
	p.Line([]Point{{0, 5}, {1, 5}}, Stroke{Color: 4, Width: 2, Dashes: []float64{5, 3}})
	c := &strokeCanvas{newSVG(100, 100), map[Color][]Stroke{}}
	if err := p.draw(io.Discard, func(float64, float64) canvas { return c }); err != nil {
		t.Fatal(err)
	}
	for color, want := range map[Color][][]float64{
		1: {{8, 9}, {8, 17}, nil},
		2: {{0, 8, 6, 3}, {0, 8, 6, 11}, {6, 3}},
		3: {{0, 17, 8, 0}},
		4: {{5, 3}},
	} {
		var got [][]float64
		for _, s := range c.strokes[color] {
			got = append(got, s.Dashes)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("line %d: dashes %v, want %v", color, got, want)
		}
	}
}

// TestDarkColors: each color has a color on a dark background, and both have the contrast of 3:1 that WCAG requires of graphics.
func TestDarkColors(t *testing.T) {
	luminance := func(c Color) float64 {
		var sum float64
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(c>>(16-8*i)&0xff) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	contrast := func(a, b Color) float64 {
		x, y := luminance(a), luminance(b)
		return (max(x, y) + 0.05) / (min(x, y) + 0.05)
	}
	dark := map[Color]Color{}
	for _, pair := range darkColors {
		dark[pair.light] = pair.dark
	}
	for _, c := range append([]Color{textColor, axisColor, 0x000000, 0xcf222e}, Colors...) {
		d, isKnown := dark[c]
		if !isKnown || contrast(c, backgroundColor) < 3 || contrast(d, dark[backgroundColor]) < 3 {
			t.Errorf("color %06x: contrast %.1f, dark color %06x: contrast %.1f", uint32(c), contrast(c, backgroundColor), uint32(d), contrast(d, dark[backgroundColor]))
		}
	}
}

// TestDarkStyle: the styles of a picture apply to this picture only, so that a page can contain several.
func TestDarkStyle(t *testing.T) {
	var out bytes.Buffer
	if err := SVG(&out, lines()); err != nil {
		t.Fatal(err)
	}
	_, style, _ := strings.Cut(out.String(), "<style>\n@media(prefers-color-scheme:dark){\n")
	style, _, _ = strings.Cut(style, "}\n</style>")
	if !strings.Contains(style, `.candor-figure [fill="#ffffff"]{fill:#0d1117}`) || !strings.Contains(style, `.candor-figure [stroke="#0969da"]{stroke:#4493f8}`) {
		t.Errorf("styles:\n%s", style)
	}
	for rule := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(style), "}\n", "}"), "}") {
		if rule != "" && !strings.HasPrefix(rule, ".candor-figure [") {
			t.Errorf("%q applies to other elements of a page", rule)
		}
	}
}
