package cpumap

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// TextOptions describe the abilities of the output.
type TextOptions struct {
	Columns int  // width; 0: 80
	Color   bool // write ANSI colors
	ASCII   bool // no character beyond ASCII, apart from names
}

// columns bounds the width to a useful range.
func (o TextOptions) columns() int {
	if o.Columns == 0 {
		return 80
	}
	return min(max(o.Columns, 40), 200)
}

// Text writes the map with its legend.
func (m *Map) Text(w io.Writer, o TextOptions) error {
	c := &canvas{color: o.Color, ascii: o.ASCII}
	c.wrap(style{}, strings.SplitAfter(summary(m.Machine), "· "), o.columns())
	c.newline()
	c.newline()
	m.draw(c, o)
	_, err := w.Write(c.buf.Bytes())
	return err
}

// Step writes the lines that describe a step of a plan, and then the map after this step. It calls Write once.
func (m *Map) Step(w io.Writer, o TextOptions, number int, lines []string) error {
	c := &canvas{color: o.Color, ascii: o.ASCII}
	if number > 1 {
		c.newline()
	}
	for i, line := range lines {
		look := style{dim: true}
		if i == 0 {
			look = style{bold: true}
			c.put(look, fmt.Sprintf("%d. ", number))
		}
		c.padTo(3)
		c.wrap(look, strings.SplitAfter(line, " "), o.columns())
		c.newline()
	}
	c.newline()
	m.draw(c, o)
	_, err := w.Write(c.buf.Bytes())
	return err
}

// draw draws the map and its legend.
func (m *Map) draw(c *canvas, o TextOptions) {
	l := chooseLayout(blocks(m.Machine, m.cells()), o.columns())
	for _, b := range l.blocks {
		l.drawBlock(c, b)
	}
	m.keys(c, o.columns())
	m.legend(c, o.columns())
}

// drawBlock draws a block with its frame.
func (l *layout) drawBlock(c *canvas, b placedBlock) {
	dim := style{dim: true}
	c.put(dim, "╭─ ")
	c.put(style{bold: true}, b.title)
	c.put(dim, " "+strings.Repeat("─", max(0, l.inner+frameWidth-c.column-2))+"╮")
	c.newline()
	for i, line := range b.lines {
		if i > 0 && l.needsSpacing(line) {
			l.drawRow(c, func() {})
		}
		for thread := range threads(line) {
			l.drawRow(c, func() { l.drawThread(c, line, thread) })
		}
	}
	c.put(dim, "╰"+strings.Repeat("─", l.inner+frameWidth-2)+"╯")
	c.newline()
}

// drawRow draws a row of a block: the content between the sides of the frame.
func (l *layout) drawRow(c *canvas, content func()) {
	c.put(style{dim: true}, "│ ")
	content()
	c.padTo(l.inner + frameWidth - 2)
	c.put(style{dim: true}, " │")
	c.newline()
}

// drawThread draws the n-th CPU of every core of a line.
func (l *layout) drawThread(c *canvas, line []position, n int) {
	if !l.ids {
		c.put(style{dim: true}, fmt.Sprintf("%*s ", l.idWidth, rowIDs(line, n)))
	}
	for i, p := range line {
		if i > 0 {
			c.put(style{dim: true}, p.separator)
		}
		if n >= len(p.cpus) {
			c.padTo(c.column + l.columnWidth())
			continue
		}
		cpu := p.cpus[n]
		if l.ids {
			mark := " "
			if cpu.hasForeign {
				mark = "!"
			}
			c.put(style{dim: true}, fmt.Sprintf("%*d", l.idWidth, cpu.cpu))
			c.put(style{fg: 203, bold: true}, mark)
		}
		cpu.draw(c, l.width)
	}
}

// rowIDs returns the IDs of the n-th CPUs of a line's cores: "0-31", or "0…62" if the IDs have gaps.
func rowIDs(line []position, n int) string {
	var ids cpuset.Set
	for _, p := range line {
		if n < len(p.cpus) {
			ids.Add(p.cpus[n].cpu)
		}
	}
	if list := ids.String(); !strings.Contains(list, ",") {
		return list
	}
	return fmt.Sprintf("%d…%d", ids.First(), ids.Last())
}

// draw draws a CPU. Each character stands for an equal part of the CPU's time: a capital letter on an exclusive CPU, a small letter
// for a fraction, and a sign for the rest.
func (c *cell) draw(to *canvas, width int) {
	if c.pool == exclusive {
		first := c.parts[0]
		to.put(first.style(), strings.Repeat(first.letter(c.pool), width))
		return
	}
	left := width
	for i, n := range c.share(width) {
		p := c.parts[i]
		to.put(p.style(), strings.Repeat(p.letter(c.pool), n))
		left -= n
	}
	to.put(style{dim: true}, strings.Repeat(c.sign(), left))
}

// sign returns the character for the part of a CPU's time that belongs to no sensitive container.
func (c *cell) sign() string {
	switch {
	case c.pool == reserved:
		return "#"
	case c.pool == isolated:
		return "x"
	case c.pool == fractional && !c.flexible:
		return "-"
	default:
		return "·"
	}
}

// share returns the number of characters for each container of a fractional CPU. The characters are in proportion to the
// fractions, but each container has at least one character if width allows it.
func (c *cell) share(width int) []int {
	share := make([]int, len(c.parts))
	order := make([]int, len(c.parts)) // largest part first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(c.parts[b].milli - c.parts[a].milli) })
	left := width
	for _, i := range order {
		if left > 0 {
			share[i], left = 1, left-1
		}
	}
	for _, i := range order {
		if share[i] == 0 {
			break
		}
		fair := int((c.parts[i].milli*hybrid.Milli(width) + 500) / 1000)
		more := min(max(0, fair-share[i]), left)
		share[i], left = share[i]+more, left-more
	}
	return share
}

// letter returns the letter of a container: a small letter on a fractional CPU, otherwise a capital letter.
func (p part) letter(in pool) string {
	letter := 'A' + rune(p.tag%letters)
	if in == fractional {
		letter += 'a' - 'A'
	}
	return string(letter)
}

// style returns a container's colors.
func (p part) style() style { return style{fg: 16, bg: palette[p.tag%len(palette)]} }
