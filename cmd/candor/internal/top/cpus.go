package top

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A group is a list of CPUs that are drawn together.
type group struct {
	name string
	cpus []CPU
}

// A form is a way to draw the CPUs of a machine. A form with more detail takes more lines.
type form func(c *canvas, f *Figures)

// forms lists the forms, the most detailed first. The last form takes a single line.
var forms = []form{wide, short, tiny,
	func(c *canvas, f *Figures) { summaries(c, f.byL3()) },
	func(c *canvas, f *Figures) { summaries(c, f.byNode()) },
	func(c *canvas, f *Figures) { summaries(c, []group{{"all", f.CPUs}}) },
}

// cpuMap draws the use and the containers of each CPU in the most detailed form that fits into maxLines lines.
func cpuMap(f *Figures, columns, maxLines int, ascii bool) []Line {
	var c *canvas
	for _, draw := range forms {
		c = &canvas{columns: columns, ascii: ascii}
		draw(c, f)
		if len(c.lines) <= maxLines {
			break
		}
	}
	return c.lines
}

// byL3 groups the CPUs by L3 domain, or by NUMA node if the kernel reports no L3 domains.
func (f *Figures) byL3() (groups []group) {
	domains := f.Map.Machine.L3s
	for i := range domains {
		groups = append(groups, f.in(fmt.Sprintf("L3 %d", i), &domains[i].CPUs))
	}
	return groups
}

func (f *Figures) byNode() (groups []group) {
	nodes := f.Map.Machine.Nodes
	for i := range nodes {
		groups = append(groups, f.in(fmt.Sprintf("NUMA %d", nodes[i].ID), &nodes[i].CPUs))
	}
	return groups
}

func (f *Figures) in(name string, cpus *cpuset.Set) group {
	g := group{name: name}
	for _, c := range f.CPUs {
		if cpus.Contains(c.CPU) {
			g.cpus = append(g.cpus, c)
		}
	}
	return g
}

// barColumns is the width of a bar.
const barColumns = 8

// wide draws each CPU with its ID, its containers, and its use as a bar and as a number.
func wide(c *canvas, f *Figures) { f.cells(c, barColumns) }

// short draws each CPU as the function wide does, but without the bar.
func short(c *canvas, f *Figures) { f.cells(c, 0) }

// cells draws a cell for each CPU, and starts a line for each NUMA node. bars is the width of the bars.
func (f *Figures) cells(c *canvas, bars int) {
	id := len(fmt.Sprint(f.lastCPU()))
	width := id + 1 + ownerColumns + 1 + bars + 5
	for _, node := range f.byNode() {
		if f.manyNodes() {
			c.put(Style{Dim: true}, node.name)
		}
		start := f.indent()
		c.padTo(Style{}, start)
		for i := range node.cpus {
			if c.column > start && c.column+2+width > c.columns {
				c.newline()
				c.padTo(Style{}, start)
			}
			if c.column > start {
				c.put(Style{}, "  ")
			}
			node.cpus[i].draw(c, id, bars)
		}
		c.newline()
	}
}

func (f *Figures) manyNodes() bool { return len(f.Map.Machine.Nodes) > 1 }

// indent returns the width of the NUMA nodes' names in front of the CPUs; 0 on a machine with a single node.
func (f *Figures) indent() int {
	if !f.manyNodes() {
		return 0
	}
	return len("NUMA 00  ")
}

func (f *Figures) lastCPU() int {
	if len(f.CPUs) == 0 {
		return 0
	}
	return f.CPUs[len(f.CPUs)-1].CPU
}

func (u *CPU) draw(c *canvas, id, bars int) {
	c.put(Style{Dim: true}, fmt.Sprintf("%*d", id, u.CPU))
	c.put(Style{Bold: true}, u.mark())
	u.owners(c, ownerColumns)
	c.put(Style{}, " ")
	if bars > 0 {
		full := 0
		if u.Busy.Known() {
			full = int(float64(u.Busy)*float64(bars) + 0.5)
		}
		c.put(u.style(), strings.Repeat("|", full))
		c.put(Style{Dim: true}, strings.Repeat("·", bars-full))
	}
	c.put(Style{}, fmt.Sprintf("%5s", u.Busy.percent()))
}

// mark returns "!" if foreign processes run on an exclusive CPU, otherwise a space.
func (u *CPU) mark() string {
	if u.HasForeign {
		return "!"
	}
	return " "
}

// ownerColumns is the number of columns for the letters of a CPU's containers.
const ownerColumns = 2

// owners draws the letters of the sensitive containers on a CPU. On a CPU without sensitive containers, owners draws the sign
// of the CPU's pool.
func (u *CPU) owners(c *canvas, columns int) {
	end := c.column + columns
	for i, p := range u.Parts {
		if i == columns-1 && len(u.Parts) > columns {
			c.put(Style{Bold: true}, "+")
			break
		}
		c.put(Style{Back: p.Color}, p.Letter)
	}
	if len(u.Parts) == 0 {
		c.put(Style{Dim: true}, u.Sign)
	}
	c.padTo(Style{}, end)
}

// style returns the style of the CPU's bar: the color of the first sensitive container on the CPU, if there is one.
func (u *CPU) style() Style {
	if len(u.Parts) > 0 {
		return Style{Back: u.Parts[0].Color}
	}
	return Style{Bold: true}
}

// percent formats a share.
func (s Share) percent() string {
	if !s.Known() {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(s))
}

// level formats a share as a single character: its number of tenths, or * from 95 % on.
func (s Share) level() string {
	switch {
	case !s.Known():
		return "-"
	case s >= 0.95:
		return "*"
	default:
		return fmt.Sprint(int(float64(s)*10 + 0.5))
	}
}

// tinyRun is the number of CPUs after which tiny draws a space.
const tinyRun = 8

// tiny draws each CPU as two characters, one above the other: its container and its use.
func tiny(c *canvas, f *Figures) {
	for _, node := range f.byNode() {
		ids := len(fmt.Sprintf("%d-%[1]d ", f.lastCPU()))
		per := max(1, (c.columns-f.indent()-ids+1)/(tinyRun+1)) * tinyRun
		for first := 0; first < len(node.cpus); first += per {
			row := node.cpus[first:min(first+per, len(node.cpus))]
			if f.manyNodes() && first == 0 {
				c.put(Style{Dim: true}, node.name)
			}
			c.padTo(Style{}, f.indent())
			c.put(Style{Dim: true}, span(row))
			line(c, row, f.indent()+ids, func(u *CPU) { u.owners(c, 1) })
			line(c, row, f.indent()+ids, func(u *CPU) { c.put(Style{}, u.Busy.level()) })
		}
	}
}

// span returns the IDs of a row's CPUs: "0-31", or "0…95" if the IDs have gaps.
func span(row []CPU) string {
	first, last := row[0].CPU, row[len(row)-1].CPU
	if last-first == len(row)-1 {
		return fmt.Sprintf("%d-%d", first, last)
	}
	return fmt.Sprintf("%d…%d", first, last)
}

func line(c *canvas, row []CPU, start int, draw func(*CPU)) {
	c.padTo(Style{}, start)
	for i := range row {
		if i > 0 && i%tinyRun == 0 {
			c.put(Style{}, " ")
		}
		draw(&row[i])
	}
	c.newline()
}

// summaries draws a line for each group of CPUs.
func summaries(c *canvas, groups []group) {
	width := 0
	if len(groups) == 1 {
		groups[0].name = "all"
	}
	for _, g := range groups {
		width = max(width, len(g.name))
	}
	for _, g := range groups {
		busy, known, ids := g.busy()
		c.put(Style{Dim: true}, g.name)
		c.padTo(Style{}, width+1)
		mean := Unknown
		if known > 0 {
			mean = busy / Share(known)
		}
		c.put(Style{}, fmt.Sprintf("%4s", mean.percent()))
		for _, pool := range g.pools() {
			c.put(Style{}, "  "+pool)
		}
		c.put(Style{Dim: true}, "  CPUs "+ids.String())
		c.newline()
	}
}

// busy returns the sum of the known uses, the number of CPUs with a known use, and the IDs of all CPUs of the group.
func (g *group) busy() (busy Share, known int, ids cpuset.Set) {
	for i := range g.cpus {
		u := &g.cpus[i]
		ids.Add(u.CPU)
		if u.Busy.Known() {
			busy += u.Busy
			known++
		}
	}
	return busy, known, ids
}

// pools returns the number of CPUs in each pool, such as "4 shared".
func (g *group) pools() (words []string) {
	for _, pool := range []string{"exclusive", "fractional", "shared", "reserved", "isolated"} {
		n := 0
		for i := range g.cpus {
			if g.cpus[i].Pool == pool {
				n++
			}
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, pool))
		}
	}
	return words
}
