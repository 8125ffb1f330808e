package advise

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/internal/figure"
)

// ErrNoNode means that the caller requested a plot of a node, but Reports has no node.
var ErrNoNode = fmt.Errorf("the figure shows the containers of a node; use --node-cpus N, or several recordings")

// Plot draws how many containers fit on the node; see Node.plot.
func (r *Reports) Plot() (*figure.Plot, error) {
	if r.node == nil {
		return nil, ErrNoNode
	}
	return r.node.plot(r.fillings), nil
}

// plot draws the share of the windows in which the containers need more CPUs than the node has, as a function of the
// number of containers. A vertical line shows the number of containers of a filling. Fillings with the same number have one line.
func (n *Node) plot(fillings []Filling) *figure.Plot {
	p := figure.New()
	p.Title = fmt.Sprintf("A node of %d CPUs, with the same number of containers for each recording\nhow many containers fit, and how often they need more CPUs than the node has", n.CPUs)
	p.X.Label, p.Y.Label = "containers", "% of the windows of 100 ms"
	p.Y.Max = 1
	curve := figure.Stroke{Color: figure.Colors[0], Width: 1.5}
	p.Line(n.shortness(fillings), curve)
	p.Label("short of CPU", curve, 0)
	names := map[int][]string{}
	for _, f := range fillings {
		names[f.Containers] = append(names[f.Containers], f.Name)
	}
	for i, f := range fillings {
		if len(names[f.Containers]) == 0 { // the line of an earlier filling
			continue
		}
		at := float64(f.Containers)
		s := figure.Stroke{Color: figure.Colors[i+1], Width: 1.2, Dashes: []float64{5, 3}}
		p.Line([]figure.Point{{X: at, Y: 0}, {X: at, Y: p.Y.Max}}, s)
		p.Label(fmt.Sprintf("%s: %d", strings.Join(names[f.Containers], ", "), f.Containers), s, 0)
		delete(names, f.Containers)
	}
	return p
}

// The plot shows the curve at least until the share of the windows reaches maxShort.
const maxShort = 0.2

// shortness returns the percentage of the windows in which the containers need more CPUs than the node has, as a function
// of the number of containers. The curve extends beyond the numbers of containers of all fillings.
func (n *Node) shortness(fillings []Filling) []figure.Point {
	maxCount := 0
	for _, f := range fillings {
		maxCount = max(maxCount, f.Containers)
	}
	load := n.newLoad()
	points := []figure.Point{{}}
	for len(points) <= maxContainers && (points[len(points)-1].Y < 100*maxShort || len(points) <= maxCount+maxCount/10+1) {
		load.add()
		points = append(points, figure.Point{X: float64(len(points)), Y: 100 * load.shortShare(float64(n.CPUs))})
	}
	return points
}
