package cpumap

import "strconv"

// A form is the amount of detail for each CPU.
type form struct {
	width int  // number of characters that show the containers of a CPU
	ids   bool // each CPU has its ID in front; otherwise each row has the range of its IDs in front
}

// forms lists the forms, the most detailed first.
var forms = []form{{20, true}, {8, true}, {4, true}, {4, false}, {3, false}, {2, false}, {1, false}}

// maxHeight bounds the rows of a map whose blocks have several lines. Only the least detailed form may have more rows.
const maxHeight = 24

// A layout maps the CPUs of a machine to positions.
type layout struct {
	form
	idWidth int // width of the IDs in front of each CPU or each row
	blocks  []placedBlock
	inner   int // columns between a frame's sides
}

// A placedBlock is a block whose cores are distributed to lines.
type placedBlock struct {
	block
	lines [][]position
}

// A position is a core in a line.
type position struct {
	cpus      []*cell
	separator string // drawn in front of the core
}

// frameWidth is the total width of the left and right side of a frame: "│ " and " │".
const frameWidth = 4

// chooseLayout returns the layout in the most detailed form in which each block fits into a line of the given columns. If there is no such
// form, chooseLayout takes the most detailed form of at most maxHeight rows, or else the least detailed form.
func chooseLayout(blocks []block, columns int) layout {
	var broken, last *layout
	for _, f := range forms {
		l := layout{form: f, idWidth: idWidth(blocks, f)}
		if !l.place(blocks, columns-frameWidth) {
			continue
		}
		if !l.isBroken() {
			return l
		}
		if broken == nil && l.height() <= maxHeight {
			broken = &l
		}
		last = &l
	}
	if broken != nil {
		return *broken
	}
	return *last
}

// isBroken reports whether any block has several lines.
func (l *layout) isBroken() bool {
	for _, p := range l.blocks {
		if len(p.lines) > 1 {
			return true
		}
	}
	return false
}

// idWidth returns the width of the IDs in front of each CPU or each row.
func idWidth(blocks []block, f form) int {
	highest := 0
	for _, b := range blocks {
		for _, l := range b.l3s {
			for _, core := range l.cores {
				highest = max(highest, core[len(core)-1].cpu)
			}
		}
	}
	digits := len(strconv.Itoa(highest))
	if f.ids {
		return digits
	}
	return 2*digits + 1 // "0-31"
}

// place distributes the cores of every block to lines. It returns false if a line is too short for a single core.
func (l *layout) place(blocks []block, columns int) bool {
	for _, b := range blocks {
		cores := l.positions(b)
		per := l.perLine(b, cores, columns)
		if per == 0 {
			return false
		}
		p := placedBlock{block: b}
		for start := 0; start < len(cores); start += per {
			line := cores[start:min(start+per, len(cores))]
			l.inner = max(l.inner, l.lineWidth(line))
			p.lines = append(p.lines, line)
		}
		l.blocks = append(l.blocks, p)
		l.inner = max(l.inner, Width(b.title)+4)
	}
	l.inner = min(l.inner, columns)
	return true
}

// positions returns the positions of a block's cores with the separators between them.
func (l *layout) positions(b block) []position {
	var all []position
	for i, domain := range b.l3s {
		for j, core := range domain.cores {
			p := position{cpus: core}
			switch {
			case i > 0 && j == 0 && l.ids:
				p.separator = " │ "
			case i > 0 && j == 0:
				p.separator = "│"
			case l.ids:
				p.separator = "  "
			case j%8 == 0 || l.width > 2:
				p.separator = " "
			}
			all = append(all, p)
		}
	}
	return all
}

// perLine returns the number of cores per line: all cores if they fit; otherwise whole L3 domains, divided evenly among the lines;
// otherwise a power of two. It returns 0 if not even a core fits.
func (l *layout) perLine(b block, cores []position, columns int) int {
	fits := 0
	for fits < len(cores) && l.lineWidth(cores[:fits+1]) <= columns {
		fits++
	}
	if fits == len(cores) || fits == 0 {
		return fits
	}
	if size := len(b.l3s[0].cores); size <= fits {
		domains := fits / size
		lines := (len(b.l3s) + domains - 1) / domains
		return size * ((len(b.l3s) + lines - 1) / lines)
	}
	per := 1
	for per*2 <= fits {
		per *= 2
	}
	return per
}

// lineWidth returns the number of columns that a line takes.
func (l *layout) lineWidth(line []position) int {
	n := 0
	if !l.ids {
		n = l.idWidth + 1
	}
	for i, p := range line {
		if i > 0 {
			n += Width(p.separator)
		}
		n += l.columnWidth()
	}
	return n
}

// columnWidth returns the number of columns that a CPU takes.
func (l *layout) columnWidth() int {
	if l.ids {
		return l.idWidth + 1 + l.width
	}
	return l.width
}

// height returns the number of rows that the frames take.
func (l *layout) height() int {
	n := 0
	for _, p := range l.blocks {
		n += 2
		for i, line := range p.lines {
			n += threads(line)
			if i > 0 && l.needsSpacing(line) {
				n++
			}
		}
	}
	return n
}

// threads returns the largest number of CPUs of a core in a line.
func threads(line []position) int {
	n := 0
	for _, p := range line {
		n = max(n, len(p.cpus))
	}
	return n
}

// needsSpacing reports whether an empty row separates a line from the previous line. Cores with several CPUs take several rows, which
// would otherwise be hard to tell apart.
func (l *layout) needsSpacing(line []position) bool { return threads(line) > 1 }
