package cpumap

import "math"

// A box is a part of the picture with a fixed size. draw draws the box at any position.
type box struct {
	w, h int
	draw func(x, y int)
}

// machine returns the box of all sockets.
func (d *drawing) machine(all []block) box {
	var sockets []box
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && all[end].socket == all[start].socket {
			end++
		}
		sockets = append(sockets, d.socket(all[start:end]))
		start = end
	}
	return grid(sockets, 16, 3)
}

// socket returns the box of a socket's NUMA nodes. If the socket has only one node, both have the same frame.
func (d *drawing) socket(nodes []block) box {
	if len(nodes) == 1 {
		return d.panel(d.node(nodes[0]), nodes[0].title, "panel")
	}
	boxes := make([]box, len(nodes))
	for i, n := range nodes {
		boxes[i] = d.panel(d.node(n), n.nodeTitle, "core")
	}
	return d.panel(grid(boxes, 10, 1), nodes[0].socketTitle, "panel")
}

// node returns the box of a NUMA node's L3 domains.
func (d *drawing) node(b block) box {
	boxes := make([]box, len(b.l3s))
	for i, l := range b.l3s {
		cores := make([]box, len(l.cores))
		for j, core := range l.cores {
			cores[j] = d.core(core)
		}
		boxes[i] = grid(cores, max(2, d.cell.w/8), 3)
		if len(b.l3s) > 1 {
			boxes[i] = d.outline(boxes[i])
		}
	}
	return grid(boxes, 8, 2)
}

// core returns the box of a core. The CPUs of the core are one below the other.
func (d *drawing) core(cpus []*cell) box {
	pad, gap := 4, 3
	if !d.cell.ids {
		pad, gap = 2, 1
	}
	return box{d.cell.w + 2*pad, len(cpus)*(d.cell.h+gap) - gap + 2*pad, func(x, y int) {
		d.printf(`<rect class="core" x="%d" y="%d" width="%d" height="%d" rx="5"/>`+"\n",
			x, y, d.cell.w+2*pad, len(cpus)*(d.cell.h+gap)-gap+2*pad)
		for i, c := range cpus {
			d.cpu(c, x+pad, y+pad+i*(d.cell.h+gap))
		}
	}}
}

// panel returns a box that contains another box in a frame with a title.
func (d *drawing) panel(inner box, title, class string) box {
	const pad, head = 12, 30
	b := box{w: max(inner.w+2*pad, 8*len(title)), h: inner.h + head + pad}
	b.draw = func(x, y int) {
		d.printf(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="8"/>`+"\n", class, x, y, b.w, b.h)
		d.text(x+pad, y+20, "m", title)
		inner.draw(x+(b.w-inner.w)/2, y+head)
	}
	return b
}

// outline returns a box that contains the box of an L3 domain in a dashed line.
func (d *drawing) outline(inner box) box {
	const pad = 6
	b := box{w: inner.w + 2*pad, h: inner.h + 2*pad}
	b.draw = func(x, y int) {
		d.printf(`<rect class="l3" x="%d" y="%d" width="%d" height="%d" rx="7"/>`+"\n", x, y, b.w, b.h)
		inner.draw(x+pad, y+pad)
	}
	return b
}

// grid arranges boxes in rows of equal length. ratio is the desired ratio of width to height.
func grid(boxes []box, gap int, ratio float64) box {
	cellW, cellH := 0, 0
	for _, b := range boxes {
		cellW, cellH = max(cellW, b.w), max(cellH, b.h)
	}
	columns, best := 1, math.Inf(1)
	for n := 1; n <= len(boxes); n++ {
		rows := (len(boxes) + n - 1) / n
		w, h := n*(cellW+gap)-gap, rows*(cellH+gap)-gap
		holes := float64(rows*n-len(boxes)) / float64(len(boxes))
		if off := math.Abs(math.Log(float64(w)/float64(h)/ratio)) + holes; off < best-1e-9 && w <= svgWidth {
			columns, best = n, off
		}
	}
	rows := (len(boxes) + columns - 1) / columns
	return box{columns*(cellW+gap) - gap, rows*(cellH+gap) - gap, func(x, y int) {
		for i, b := range boxes {
			b.draw(x+i%columns*(cellW+gap), y+i/columns*(cellH+gap))
		}
	}}
}
