package cpumap

import "strconv"

// A form is the amount of detail for each CPU.
type form struct {
	width int  // characters for the time of a CPU
	ids   bool // each CPU is drawn with its id, not each row with its ids
}

// forms, from the most to the least detailed.
var forms = []form{{20, true}, {8, true}, {4, true}, {4, false}, {3, false}, {2, false}, {1, false}}

// maxHeight is the height of a map with blocks of several lines; only the least detailed form can be higher.
const maxHeight = 24

// A layout maps the CPUs of a machine to positions.
type layout struct {
	form
	idWidth int // of the ids in front of the CPUs, or of the rows
	blocks  []placed
	inner   int // columns between a frame's sides
}

// placed is a block with its cores broken into lines.
type placed struct {
	block
	lines [][]position
}

// A position is a core in a line.
type position struct {
	cpus      []*cell
	separator string // in front of it
}

// frame is the width of a frame's two sides: "│ " and " │".
const frame = 4

// lay chooses the most detailed form in which each block fits into a line of the given columns. If there is none, it chooses
// the first form that is not too high.
func lay(blocks []block, columns int) layout {
	var broken, last *layout
	for _, f := range forms {
		l := layout{form: f, idWidth: idWidth(blocks, f)}
		if !l.place(blocks, columns-frame) {
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

// isBroken reports whether a block has several lines.
func (l *layout) isBroken() bool {
	for _, p := range l.blocks {
		if len(p.lines) > 1 {
			return true
		}
	}
	return false
}

// idWidth returns the columns that ids take.
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

// place breaks every block into lines. It returns false if not even a core fits.
func (l *layout) place(blocks []block, columns int) bool {
	for _, b := range blocks {
		cores := l.positions(b)
		per := l.perLine(b, cores, columns)
		if per == 0 {
			return false
		}
		p := placed{block: b}
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

// perLine returns the cores per line: all cores, or whole L3 domains in lines of about the same length, or a power of two.
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

// lineWidth returns the columns that a line takes.
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

// columnWidth returns the columns of a CPU.
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
			if i > 0 && l.spaced(line) {
				n++
			}
		}
	}
	return n
}

// threads returns the most CPUs that a core of a line has.
func threads(line []position) int {
	n := 0
	for _, p := range line {
		n = max(n, len(p.cpus))
	}
	return n
}

// spaced reports whether an empty row separates the lines of a block, so that cores with several rows stay apart.
func (l *layout) spaced(line []position) bool { return threads(line) > 1 }
