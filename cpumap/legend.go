package cpumap

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
)

// keys draws an explanation of each sign that occurs in the map.
func (m *Map) keys(c *canvas, columns int) {
	var pools [poolCount]cpuset.Set
	var unused, strangers bool
	for _, cell := range m.cells() {
		pools[cell.pool].Add(cell.cpu)
		unused = unused || cell.pool == fractional && !cell.flexible
		strangers = strangers || cell.hasForeign
	}
	c.newline()
	key := func(sign, text string) {
		if c.column > 0 && c.column+Width(sign+text)+2 > columns {
			c.newline()
		}
		c.put(style{}, " ")
		c.put(style{bold: true}, sign)
		c.put(style{dim: true}, " "+text)
		c.put(style{}, "  ")
	}
	of := func(p pool, what string) string { return fmt.Sprintf("%s (%d)", what, pools[p].Count()) }
	if !pools[exclusive].IsEmpty() {
		key("A", of(exclusive, "exclusive"))
	}
	if !pools[fractional].IsEmpty() {
		key("a", of(fractional, "fractional"))
	}
	key("·", of(shared, "shared"))
	if unused {
		key("-", "kept free")
	}
	if !pools[reserved].IsEmpty() {
		key("#", of(reserved, "reserved"))
	}
	if !pools[isolated].IsEmpty() {
		key("x", of(isolated, "isolated"))
	}
	if !m.Machine.Offline.IsEmpty() {
		key("offline", m.Machine.Offline.String())
	}
	if strangers {
		key("!", "foreign processes")
	}
	c.newline()
}

// A row is the row of a container in the legend.
type row struct {
	grant *hybrid.Grant
	tag   int // number in Tags
	name  string
	sees  string
}

// rowWidths are the widths of columns with texts of different lengths.
type rowWidths struct{ name, sees int }

// nameColumns bounds the width of the name column: a third of a narrow map, nearly half of a wide map.
func nameColumns(columns int) int { return max(24, columns/2-16) }

// legend lists the containers with their limits and CPUs, and then the totals of the node.
func (m *Map) legend(c *canvas, columns int) {
	tags := m.tags()
	rows := make([]row, len(m.Grants))
	widths := rowWidths{len("NAME"), len("SEES")}
	for i := range m.Grants {
		g := &m.Grants[i]
		rows[i] = row{g, tags.number[g.ID], Shorten(m.Name(g.ID), nameColumns(columns)), m.sees(g).String()}
		widths.name = max(widths.name, Width(rows[i].name))
		widths.sees = max(widths.sees, len(rows[i].sees))
	}
	c.newline()
	if len(rows) == 0 {
		c.put(style{dim: true}, " No containers of Candor.")
		c.newline()
		m.totals(c, columns)
		m.foreign(c, columns)
		return
	}
	c.put(style{dim: true}, fmt.Sprintf("   %-*s  %-9s  %6s  %*s  %s", widths.name, "NAME", "CLASS", "LIMIT", widths.sees, "SEES", "CPUS"))
	c.newline()
	for _, r := range rows {
		r.draw(c, widths, columns)
	}
	m.totals(c, columns)
	m.drawForeignUses(c, columns)
	m.foreign(c, columns)
}

// draw writes the row of a container.
func (r row) draw(c *canvas, widths rowWidths, columns int) {
	g := r.grant
	c.put(style{}, " ")
	limit := g.Limit.String()
	if g.Class == hybrid.Sensitive {
		p := part{tag: r.tag}
		c.put(p.style(), p.letter(exclusive))
	} else {
		c.put(style{dim: true}, "·")
		if g.Limit == 0 {
			limit = "none"
		}
	}
	c.put(style{}, " "+r.name)
	c.padTo(3 + widths.name)
	c.put(style{}, fmt.Sprintf("  %-9s  %6s  %*s  ", g.Class, limit, widths.sees, r.sees))
	c.wrap(style{}, describe(g), columns)
	c.newline()
}

// describe returns the CPUs of a container as words, between which a line can break.
func describe(g *hybrid.Grant) []string {
	if g.Class == hybrid.Flexible {
		return list(g.CPUs)
	}
	words := list(g.Exclusive)
	for _, f := range g.Fractions {
		if len(words) > 0 {
			words[len(words)-1] += ", "
		}
		words = append(words, fmt.Sprintf("%s of %d", milli(f.Milli), f.CPU))
	}
	if !g.Lost.IsEmpty() {
		words = append(words, fmt.Sprintf(" (lost: %v)", g.Lost))
	}
	return words
}

// milli formats an amount in milli-CPU, such as 1500m.
func milli(m hybrid.Milli) string { return fmt.Sprintf("%dm", int64(m)) }

// list returns the ranges of a CPU set as words. Each word but the last ends with a comma.
func list(s cpuset.Set) []string {
	if s.IsEmpty() {
		return nil
	}
	return strings.SplitAfter(s.String(), ",")
}

// wrap writes words. When a line is full, wrap starts a line and continues below the first word.
func (c *canvas) wrap(s style, words []string, columns int) {
	start := c.column
	for _, word := range words {
		if c.column > start && c.column+Width(strings.TrimRight(word, " ")) > columns {
			c.newline()
			c.padTo(start)
		}
		c.put(s, word)
	}
}

// totals writes the sums below the list of containers.
func (m *Map) totals(c *canvas, columns int) {
	for i, sum := range m.sums() {
		if i == 0 {
			c.newline()
		}
		c.padTo(1)
		c.wrap(style{dim: true}, strings.SplitAfter(sum, " "), columns)
		c.newline()
	}
}

// sums returns a sentence on the CPU time of the sensitive containers, sentences on the CPUs that the containers see, and one sentence for
// each group limit and each reservation.
func (m *Map) sums() (sums []string) {
	if total := m.total(); total != "" {
		sums = append(sums, total)
	}
	sums = append(sums, m.seenSums()...)
	for _, l := range m.Limits {
		names := make([]string, len(l.Containers))
		for i, id := range l.Containers {
			names[i] = m.Name(id)
		}
		sum := "L" + l.String()[1:]
		if len(names) > 0 {
			sum += ": " + strings.Join(names, ", ")
		}
		sums = append(sums, sum+".")
	}
	for _, r := range m.Reservations {
		sums = append(sums, fmt.Sprintf("Reserved by %s: %s.", Clean(r.Group), cputext.CPUs(r.CPUs)))
	}
	return sums
}

// total returns a sentence on the limits of the sensitive containers and their shared time; "" without such containers.
func (m *Map) total() string {
	var sensitive hybrid.Milli
	for i := range m.Grants {
		if m.Grants[i].Class == hybrid.Sensitive {
			sensitive += m.Grants[i].Limit
		}
	}
	if sensitive == 0 {
		return ""
	}
	text := fmt.Sprintf("Sensitive containers: %s CPUs", decimal(sensitive))
	if sensitive == 1000 {
		text = "Sensitive containers: 1 CPU"
	}
	if m.Shared == 0 {
		return text + ", none of it shared time."
	}
	return text + fmt.Sprintf(", of which %s (%.1f %%) is shared time.", decimal(m.Shared), 100*float64(m.Shared)/float64(sensitive))
}

// decimal formats an amount as a number of CPUs, such as 1.5.
func decimal(m hybrid.Milli) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", float64(m)/1000), "0"), ".")
}

// drawForeignUses lists the use of exclusive CPUs by foreign processes.
func (m *Map) drawForeignUses(c *canvas, columns int) {
	var words []string
	for _, s := range m.ForeignUses {
		if s.Milli <= 0 {
			continue
		}
		if len(words) > 0 {
			words[len(words)-1] += ", "
		}
		words = append(words, fmt.Sprintf("%s %.1f %%", cputext.CPUs(s.CPUs), float64(s.Milli)/10))
	}
	if len(words) == 0 {
		return
	}
	c.put(style{fg: 203, bold: true}, " ! ")
	c.wrap(style{}, append(strings.SplitAfter("Foreign processes use exclusive CPUs: ", " "), words...), columns)
	c.newline()
}
