package advise

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/candor-project/candor/internal/figure"
)

// ErrNoNode means that a plot of a node was requested without a node.
var ErrNoNode = fmt.Errorf("the figure shows the containers of a node; use --node-cpus N, or several recordings")

// Plot draws the number of containers that the node holds.
func (r *Reports) Plot() (*plot.Plot, error) {
	if r.node == nil {
		return nil, ErrNoNode
	}
	return r.node.plot(r.fillings)
}

// plot draws the share of the windows in which the containers need more than the node has, by their number. A
// vertical line shows the number of containers of each filling.
func (n *Node) plot(fillings []Filling) (*plot.Plot, error) {
	p := figure.New()
	p.Title.Text = fmt.Sprintf("A node of %d CPUs, with equally many of each\nhow many it holds, and how often they need more than it has", n.CPUs)
	p.X.Label.Text, p.Y.Label.Text = "containers", "% of the windows of 100 ms"
	points := n.shortness(fillings)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, points[len(points)-1].X, 0, points[len(points)-1].Y
	p.Y.Max = max(p.Y.Max, 1)
	if err := figure.Line(p, "short of CPU", points, draw.LineStyle{Color: figure.Colors[0], Width: 1.5}); err != nil {
		return nil, err
	}
	for i, f := range fillings {
		at := float64(f.Containers)
		style := draw.LineStyle{Color: figure.Colors[i+1], Width: 1.2, Dashes: []vg.Length{5, 3}}
		if err := figure.Line(p, fmt.Sprintf("%s: %d", f.Name, f.Containers), plotter.XYs{{X: at, Y: 0}, {X: at, Y: p.Y.Max}}, style); err != nil {
			return nil, err
		}
	}
	figure.AddMargin(p, len(fillings)+1)
	return p, nil
}

// maxShort is the share of the windows at which the plot ends.
const maxShort = 0.2

// shortness returns the percentage of the windows in which the containers need more than the node has, by their
// number. The last point lies beyond all fillings.
func (n *Node) shortness(fillings []Filling) plotter.XYs {
	maxCount := 0
	for _, f := range fillings {
		maxCount = max(maxCount, f.Containers)
	}
	load := n.newLoad()
	points := plotter.XYs{{}}
	for len(points) <= maxContainers && (points[len(points)-1].Y < 100*maxShort || len(points) <= maxCount+maxCount/10+1) {
		load.add()
		points = append(points, plotter.XY{X: float64(len(points)), Y: 100 * load.shortShare(float64(n.CPUs))})
	}
	return points
}
