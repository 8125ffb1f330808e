package top

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
)

// A Size is the size of the screen. If Rows is 0, the number of rows is unlimited, and the output has no cursor and no keys.
type Size struct {
	Columns, Rows int
	ASCII         bool // no character beyond ASCII, apart from names
}

// Draw returns the lines of a screen that shows the figures with the user's settings.
func (u *UI) Draw(f *Figures, size Size) []Line {
	c := &canvas{columns: size.Columns, ascii: size.ASCII}
	u.header(c, f)
	below := 1 // the line of keys
	if u.Failed != "" || f.Note != "" {
		below++
	}
	rows := max(1, size.Rows-below)
	switch {
	case u.Help:
		help(c)
	case u.Inside != "":
		u.drawContainer(c, f, rows)
	default:
		u.overview(c, f, rows, size)
	}
	if size.Rows == 0 {
		return c.lines
	}
	c.lines = c.lines[:min(len(c.lines), rows)]
	for len(c.lines) < rows {
		c.newline()
	}
	u.footer(c, f)
	return c.lines[:size.Rows]
}

// maxMapLines bounds the lines of the map if the number of rows is unlimited.
const maxMapLines = 24

// overview draws the map of the CPUs and the list of the containers.
func (u *UI) overview(c *canvas, f *Figures, rows int, size Size) {
	maxLines := maxMapLines
	if size.Rows > 0 {
		maxLines = max(1, rows-len(c.lines)-1-max(3, rows/3)) // below the map: the column headers and the containers
	}
	c.lines = append(c.lines, cpuMap(f, c.columns, maxLines, c.ascii)...)
	if size.Rows == 0 || rows >= 16 {
		c.newline()
	}
	visible := u.Visible(f.Rows)
	if size.Rows == 0 {
		u.table(c, visible, 0)
	} else {
		u.table(c, visible, max(1, rows-len(c.lines)-1))
	}
	if len(visible) > 0 {
		return
	}
	if u.Filter != "" {
		c.put(Style{Dim: true}, fmt.Sprintf("  No container has %q in its name, class or state.", u.Filter))
	} else {
		c.put(Style{Dim: true}, "  No containers of Candor. candor audit lists other containers.")
	}
	c.newline()
}

// header draws a summary of all CPUs and the state of the program.
func (u *UI) header(c *canvas, f *Figures) {
	c.put(Style{Bold: true}, "candor top")
	all := group{cpus: f.CPUs}
	busy, known, _ := all.busy()
	text := fmt.Sprintf("  %d CPUs", len(f.CPUs))
	if known > 0 {
		text += fmt.Sprintf(", %.2f busy (%s)", float64(busy), (busy / Share(known)).percent())
	}
	c.put(Style{}, fmt.Sprintf("%s  %d containers", text, len(f.Rows)))
	var others hybrid.Milli
	for _, s := range f.ForeignUses {
		others += s.Milli
	}
	if others > 0 {
		c.put(Style{Bold: true}, fmt.Sprintf("  ! foreign processes use %.2f exclusive CPUs", float64(others)/1000))
	}
	if u.Paused {
		c.put(Style{Reverse: true}, "  paused  ")
	} else {
		c.put(Style{Dim: true}, "  "+describeInterval(u.Interval, f.During))
	}
	if u.Filter != "" && !u.isTyping {
		c.put(Style{Bold: true}, "  filter "+cpumap.Clean(u.Filter))
	}
	c.newline()
}

// describeInterval describes the time between the two samples.
func describeInterval(interval, during time.Duration) string {
	if interval == 0 {
		return "in " + during.Round(time.Millisecond).String()
	}
	return "every " + interval.String()
}

// footer draws the last error or the note, and the keys.
func (u *UI) footer(c *canvas, f *Figures) {
	if u.Failed != "" {
		c.put(Style{Bold: true}, cpumap.Clean(u.Failed))
		c.newline()
	} else if f.Note != "" {
		c.put(Style{Bold: true}, cpumap.Clean(f.Note))
		c.newline()
	}
	switch {
	case u.isTyping:
		c.put(Style{Bold: true}, "filter: ")
		c.put(Style{}, cpumap.Clean(u.Filter))
		c.put(Style{Reverse: true}, " ")
		c.put(Style{Dim: true}, "  enter: keep it, esc: all containers")
	case u.Inside != "":
		c.put(Style{Dim: true}, "q quit  esc back  ? help  p pause  +- speed")
	default:
		c.put(Style{Dim: true}, "q quit  ? help  enter look  / filter  cutnl sort  r reverse  p pause  +- speed")
	}
	c.newline()
}

// help explains the keys and the columns.
func help(c *canvas) {
	for _, line := range [][2]string{
		{"up, down, j, k", "move; also page up, page down, home, end"},
		{"enter", "look into a container: its CPUs, group and threads; esc: back"},
		{"c, u", "sort by CPU use; by use of the limit"},
		{"t, n, l", "sort by throttled periods; by name; by limit"},
		{"r", "the other way round"},
		{"/", "only containers with this in name, class or state; esc: all"},
		{"p, space", "pause, and go on"},
		{"+, -", "read less often, more often"},
		{"q", "quit"},
		{"", ""},
		{"CPU 0 A ||||", "an exclusive CPU of container A; a small letter: a fraction"},
		{"CPU 1 .", "a CPU that the flexible containers share; # reserved, x isolated"},
		{"!", "foreign processes run on an exclusive CPU"},
		{"USE, LIM%", "CPUs that it uses; part of its limit"},
		{"THR%, ALL%", "periods in which its quota ran out: now; since it began"},
	} {
		c.put(Style{Bold: true}, fmt.Sprintf("%-16s", line[0]))
		c.put(Style{}, line[1])
		c.newline()
	}
}
