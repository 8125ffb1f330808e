// Package figure draws candor's plots in a common style, as SVG and PNG.
package figure

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// New returns an empty plot with a grid and room around it.
func New() *plot.Plot {
	p := plot.New()
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
		style.Font.Size = 9
	}
	p.Title.Padding, p.X.Label.Padding, p.Y.Label.Padding = 6, 4, 4
	p.Legend.Padding = 2
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = 8, -4
	p.Add(plotter.NewGrid())
	return p
}

// Colors are eight colors that readers with color blindness can distinguish.
var Colors = []color.Color{RGB(0x0969da), RGB(0xd9730d), RGB(0x1a9c56), RGB(0xcf3f7e), RGB(0x1b9aaa), RGB(0x8250df), RGB(0x24478f), RGB(0x8a5a2b)}

// RGB is a color written as in HTML.
func RGB(v uint32) color.Color { return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255} }

// Line adds a line that the legend names.
func Line(p *plot.Plot, name string, points plotter.XYs, style draw.LineStyle) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.LineStyle = style
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// Size of a figure.
const (
	width  = 17 * vg.Centimeter
	height = 11 * vg.Centimeter
	dpi    = 144
	margin = 8
)

// legendLine is the part of a figure's height that a line of its legend takes.
const legendLine = 0.045

// AddMargin extends the plot upwards, so that a legend with that many lines covers no data.
func AddMargin(p *plot.Plot, lines int) { p.Y.Max /= max(1-legendLine*float64(lines+1), 0.3) }

// SVG writes a plot.
func SVG(w io.Writer, p *plot.Plot) error {
	c := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(c), margin, -margin, margin, -margin))
	_, err := c.WriteTo(w)
	return err
}

// PNG writes a plot.
func PNG(w io.Writer, p *plot.Plot) error {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	p.Draw(draw.Crop(draw.New(c), margin, -margin, margin, -margin))
	_, err := c.WriteTo(w)
	return err
}
