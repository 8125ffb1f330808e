package tracereport

import (
	"fmt"
	"io"
	"strings"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/trace"
)

// sparkColumns is the number of characters in the line that shows the load.
const sparkColumns = 64

// writeLoad draws the ratio of requested CPU to capacity over time, as a line of characters.
func writeLoad(w io.Writer, title string, points []trace.LoadPoint, ascii bool) error {
	load := ratios(points, sparkColumns)
	if len(load) == 0 {
		return nil
	}
	least, most := load[0], load[0]
	for _, v := range load {
		least, most = min(least, v), max(most, v)
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	if ascii {
		levels = []rune("_.-:=+*#")
	}
	var b strings.Builder
	for _, v := range load {
		level := 0
		if most > 0 {
			level = int(v/most*float64(len(levels)-1) + 0.5)
		}
		b.WriteRune(levels[level])
	}
	_, err := fmt.Fprintf(w, "\nrequested CPU / capacity of %s over time: %.1f to %.1f %% (bars start at 0)\n%s\n",
		title, 100*least, 100*most, b.String())
	return err
}

// ratios divides the load into intervals of equal length, at most the given number. It returns the ratio of requested CPU to
// capacity in each interval.
func ratios(load []trace.LoadPoint, most int) []float64 {
	n := min(len(load), most)
	list := make([]float64, n)
	for i := range list {
		from, to := i*len(load)/n, (i+1)*len(load)/n
		var requested, capacity float64
		for _, p := range load[from:to] {
			requested += p.Requested
			capacity += p.Capacity
		}
		if capacity > 0 {
			list[i] = requested / capacity
		}
	}
	return list
}

// writeReport writes the number of records that the trace's reader skipped or could not represent as events, by reason.
func writeReport(w io.Writer, title string, r *trace.Report) error {
	for _, part := range []struct {
		what   string
		counts []trace.Count
	}{{"skipped", r.Skipped}, {"not modeled", r.NotModelled}} {
		if len(part.counts) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s of %s:\n", part.what, title); err != nil {
			return err
		}
		for _, c := range part.counts {
			if _, err := fmt.Fprintf(w, "%9s  %s, the first at %s\n", count(c.N), c.Reason, cpumap.Clean(c.First)); err != nil {
				return err
			}
		}
	}
	return nil
}
