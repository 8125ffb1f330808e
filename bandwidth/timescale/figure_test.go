package timescale

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/internal/figure"
)

// throttledGroup is a group that uses its whole limit for five seconds, and then varies.
func throttledGroup(quota time.Duration) *Group {
	g := &Group{Group: record.Group{Name: "/web", Quota: quota, Period: 100 * ms}, To: 10 * time.Second}
	limit := float64(quota) / float64(100*ms)
	random := rand.New(rand.NewPCG(1, 1))
	for _, window := range []time.Duration{10 * ms, 100 * ms, time.Second} {
		s := &Series{Window: window, windowsPerPoint: 1}
		for at := time.Duration(0); at < g.To; at += window {
			use := limit
			if at >= 5*time.Second {
				use = 0.3 + random.Float64()*0.2
			}
			s.push(use, 1)
		}
		g.Points = append(g.Points, s)
	}
	return g
}

// TestPlotMachine: the plot has a line for the CPUs of the machine. A line that would be over the limit is part of its label, and
// a machine that is much larger than the use is only in the legend.
func TestPlotMachine(t *testing.T) {
	const line = `stroke-dasharray="9,2,2,2"` // in the plot and in the legend
	for _, c := range []struct {
		name    string
		quota   time.Duration
		machine int
		want    string
		lines   int
		top     float64
	}{
		{"a line above the limit", 100 * ms, 2, ">CPUs of the machine<", 2, 2},
		{"equal to the limit", 200 * ms, 2, ">limit = CPUs of the machine<", 0, 2},
		{"a large machine", 100 * ms, 64, ">CPUs of the machine: 64, above the plot<", 0, 1},
		{"unknown", 100 * ms, 0, ">limit<", 0, 1},
	} {
		p := throttledGroup(c.quota).Plot(c.machine)
		var out bytes.Buffer
		if err := figure.SVG(&out, p); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), line); !strings.Contains(out.String(), c.want) || n != c.lines || p.Y.Max != c.top {
			t.Errorf("%s: %d lines of the machine, the axis ends at %v; no %q in\n%s", c.name, n, p.Y.Max, c.want, out.String())
		}
	}
}
