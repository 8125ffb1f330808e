package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/golden"
	"github.com/candor-project/candor/internal/procfs"
)

// screen returns the text of the drawing.
func screen(u *UI, f *Figures, size Size) string {
	var b strings.Builder
	for _, line := range u.Draw(f, size) {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// manyCPUs returns the figures of a machine with 512 CPUs in 2 sockets, 8 NUMA nodes and 64 L3 domains, and
// 120 containers.
func manyCPUs(t testing.TB) *Figures {
	w := newWorld(t, "pack:2 numa:4 l3:8 core:4 pu:2")
	for n := range 90 {
		w.add(fmt.Sprintf("team-%d/job-%d/main", n%3, n), hybrid.Sensitive, hybrid.Milli(1000+n%7*500))
	}
	for n := range 30 {
		w.add(fmt.Sprintf("sidecar-%d", n), hybrid.Flexible, 200)
	}
	before := w.now()
	w.pass(second)
	for i := range w.Containers {
		w.Containers[i].uses(second/2, 10, uint64(i%10))
	}
	return Between(before, w.now(), "")
}

func TestScreens(t *testing.T) {
	four := Between(smallReadings(t))
	inside := Between(smallInside(t))
	for name, c := range map[string]struct {
		f    *Figures
		u    UI
		size Size
	}{
		"small":   {four, UI{}, Size{80, 24, false}},
		"narrow":  {four, UI{}, Size{20, 5, false}},
		"ascii":   {four, UI{Paused: true, Filter: "web"}, Size{60, 12, true}},
		"printed": {four, UI{}, Size{120, 0, false}},
		"help":    {four, UI{Help: true}, Size{80, 24, false}},
		"inside":  {inside, UI{Inside: inside.Rows[0].ID, Failed: "state: gone"}, Size{80, 24, false}},
		"big":     {manyCPUs(t), UI{Selected: "sidecar-9"}, Size{120, 40, false}},
	} {
		c.u.Sort, c.u.Interval = ByUse, second
		golden.Check(t, "testdata/"+name+".txt", screen(&c.u, c.f, c.size))
	}
}

// smallInside returns the readings of small, with threads for the first container, and the ID of this
// container.
func smallInside(t *testing.T) (before, after *Reading, inside string) {
	before, after = small(t)
	for i, r := range []*Reading{before, after} {
		c := &r.Containers[0]
		for id := range 3 {
			c.Threads = append(c.Threads, Thread{4711, procfs.Thread{ID: 4711 + id, Name: "worker\x1b[2J", Time: second * time.Duration(1+i*id) / 4, CPU: id}})
		}
	}
	return before, after, before.Containers[0].ID
}

// TestDrawAnySize: for any window size and keys, the drawing fits into the window, has no control characters
// and does not panic.
func TestDrawAnySize(t *testing.T) {
	inside := Between(smallInside(t))
	figures := []*Figures{Between(smallReadings(t)), inside, manyCPUs(t)}
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(figures).Draw(rt, "figures")
		size := Size{rapid.IntRange(1, 320).Draw(rt, "columns"), rapid.IntRange(1, 90).Draw(rt, "rows"), rapid.Bool().Draw(rt, "ascii")}
		u := &UI{Sort: ByUse, Interval: second, Help: rapid.Bool().Draw(rt, "help"), Failed: rapid.SampledFrom([]string{"", "x\ny"}).Draw(rt, "failed")}
		if f == inside && rapid.Bool().Draw(rt, "inside") {
			u.Inside = f.Rows[0].ID
		}
		for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{keyDown, keyPageDown, keyEnd, "t", "/", "w", keyEnter, keyEsc}), 0, 5).Draw(rt, "keys") {
			u.Press(key, f, 10)
		}
		lines := u.Draw(f, size)
		if len(lines) != size.Rows {
			rt.Errorf("%d lines of %d", len(lines), size.Rows)
		}
		for _, line := range lines {
			if width := cpumap.Width(line.String()); width > size.Columns {
				rt.Errorf("%d columns of %d: %s", width, size.Columns, line)
			}
			for _, span := range line {
				if strings.ContainsAny(span.Text, "\n\x1b") {
					rt.Errorf("%q has control characters", span.Text)
				}
			}
		}
	})
}

// TestFormsShowAllCPUs: each form of the map shows all CPUs, or all groups of CPUs.
func TestFormsShowAllCPUs(t *testing.T) {
	f := manyCPUs(t)
	for i, form := range forms {
		c := &canvas{columns: 100}
		form(c, f)
		signs := 0
		for _, line := range c.lines {
			signs += strings.Count(line.String(), "%")
		}
		want := map[int]int{0: 512, 1: 512, 3: 64, 4: 8, 5: 1}[i]
		if i != 2 && signs != want {
			t.Errorf("form %d has %d percentages, want %d", i, signs, want)
		}
		if i == 2 { // each line with owners is above a line with levels
			above, below := 0, 0
			for n, line := range c.lines {
				row := strings.TrimSpace(line.String())
				row = strings.ReplaceAll(row[strings.LastIndex(row, "  ")+1:], " ", "")
				if n%2 == 1 {
					below += len([]rune(row))
				} else {
					above++
				}
			}
			if below != 512 || above*2 != len(c.lines) {
				t.Errorf("form %d has %d levels in %d lines", i, below, len(c.lines))
			}
		}
	}
}
