package cpumap

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/hybrid"
)

// Sizes of the legend in pixels.
const (
	legendTop  = 44 // from the map to the first row of the table
	legendRow  = 22
	legendTail = 56 // the two lines below the table: the keys and the first sum
)

// legendHeight returns the height of the legend.
func (d *drawing) legendHeight(m *Map) int {
	return legendTop + max(1, len(m.Grants))*legendRow + legendTail + max(0, len(m.svgSums())-1)*legendRow
}

// legend draws the table of containers.
func (d *drawing) legend(m *Map, y, width int) {
	y += legendTop - 14
	columns := []int{margin + 26, margin + 262, margin + 400, margin + 448, margin + 472} // name, class, limit (end), sees (end), CPUs
	for i, head := range []string{"container", "class", "limit", "sees", "CPUs"} {
		d.text(columns[i], y, "m"+end(i), head)
	}
	d.printf(`<path class="rule" d="M%d %dH%d"/>`+"\n", margin, y+7, width-margin)
	if len(m.Grants) == 0 {
		d.text(columns[0], y+legendRow+2, "m", "no containers of Candor")
	}
	tags := m.tags()
	for i := range m.Grants {
		g := &m.Grants[i]
		line := y + (i+1)*legendRow + 2
		d.swatch(part{tag: tags.number[g.ID]}, g.Class, line)
		limit := g.Limit.String()
		if g.Class == hybrid.Flexible && g.Limit == 0 {
			limit = "none"
		}
		cpus := Shorten(strings.Join(describe(g), ""), (width-margin-columns[4])/7)
		for j, text := range []string{Shorten(m.Name(g.ID), 26), g.Class.String(), limit, m.sees(g).String(), cpus} {
			class := []string{"t", "m", "n", "n", "n"}[j]
			d.text(columns[j], line, class+end(j), text)
		}
	}
	y += max(1, len(m.Grants))*legendRow + 34
	d.keys(m, y)
	for i, sum := range m.svgSums() {
		d.text(margin, y+26+i*legendRow, "m", Shorten(sum, (width-2*margin)/6))
	}
}

// svgSums returns the sentences below the table.
func (m *Map) svgSums() []string {
	sums := m.sums()
	if foreign := m.foreignSum(); foreign != "" {
		sums = append(sums, foreign)
	}
	return sums
}

// keys draws an explanation of the fill patterns for CPUs, or parts of CPUs, without a sensitive container.
func (d *drawing) keys(m *Map, y int) {
	var has [poolCount]bool
	free := false
	for _, c := range m.cells() {
		has[c.pool] = true
		free = free || c.pool == fractional && !c.flexible
	}
	x := margin
	key := func(show bool, look, text string) {
		if !show {
			return
		}
		d.printf(`<rect %s stroke="#8c959f" stroke-width=".5" x="%d" y="%d" width="16" height="16" rx="3"/>`, look, x, y-12)
		d.text(x+26, y, "m", text)
		x += 56 + 7*len(text)
	}
	key(true, `class="shared"`, "shared by the flexible ones")
	key(free, `class="free"`, "kept free")
	key(has[reserved], `fill="url(#reserved)"`, "reserved")
	key(has[isolated], `fill="url(#isolated)"`, "isolated")
	key(!m.Machine.Offline.IsEmpty(), `fill="none"`, "offline: "+Shorten(m.Machine.Offline.String(), 30))
}

// end returns the CSS class of a column: numbers are aligned at their end.
func end(column int) string {
	if column == 2 || column == 3 {
		return " e"
	}
	return ""
}

// swatch draws a container's color and letter.
func (d *drawing) swatch(p part, class hybrid.Class, line int) {
	if class == hybrid.Flexible {
		d.printf(`<rect class="shared" x="%d" y="%d" width="16" height="16" rx="3"/>`+"\n", margin, line-12)
		return
	}
	d.printf(`<rect fill="%s" x="%d" y="%d" width="16" height="16" rx="3"/>`, svgPalette[p.tag%len(svgPalette)], margin, line-12)
	d.printf(`<text class="n on c" x="%d" y="%d">%s</text>`+"\n", margin+8, line, p.letter(exclusive))
}

// describe returns the pool and the containers of a CPU as text.
func (c *cell) describe() string {
	words := []string{fmt.Sprintf("CPU %d: %s", c.cpu, c.pool)}
	if c.reservedBy != "" {
		words[0] += " by " + c.reservedBy
	}
	for _, p := range c.parts {
		text := p.name
		if c.pool == fractional {
			text = milli(p.milli) + " " + text
		}
		words = append(words, text)
	}
	if c.flexible {
		words = append(words, "flexible containers")
	}
	if c.hasForeign {
		words = append(words, "foreign processes")
	}
	return strings.Join(words, ", ")
}
