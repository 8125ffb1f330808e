package advise

import (
	"bytes"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/figure"
)

// TestPlotEqualFillings: fillings with the same number of containers have one line, whose label names all of them.
func TestPlotEqualFillings(t *testing.T) {
	n := &Node{CPUs: 4, Risk: 0.01, windows: [][]float64{{0.5, 1, 0.2, 0.4}}}
	p := n.plot([]Filling{{Name: "limits", Containers: 4}, {Name: "limits with burst", Containers: 4}, {Name: "no limits", Containers: 7}})
	var out bytes.Buffer
	if err := figure.SVG(&out, p); err != nil {
		t.Fatal(err)
	}
	svg := out.String()
	if !strings.Contains(svg, ">limits, limits with burst: 4<") || !strings.Contains(svg, ">no limits: 7<") {
		t.Errorf("labels:\n%s", svg)
	}
	if got := strings.Count(svg, `stroke-dasharray="5,3"`); got != 4 { // two lines, and two samples in the legend
		t.Errorf("%d dashed lines, want 4:\n%s", got, svg)
	}
}
