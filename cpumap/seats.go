package cpumap

import "github.com/candor-project/candor/hybrid"

// A Seat is an online CPU with its containers, for callers that draw the CPUs themselves.
type Seat struct {
	CPU        int
	Pool       string // exclusive, fractional, shared, reserved or isolated
	Sign       string // the map's character for the part of the CPU's time that belongs to no sensitive container
	Parts      []Part // parts of the sensitive containers, in order of arrival
	Flexible   bool   // flexible containers run here
	HasForeign bool   // foreign processes use this exclusive CPU
}

// A Part is the share that a sensitive container has of a CPU.
type Part struct {
	ID     string
	Letter string // a capital letter on an exclusive CPU, a small letter for a fraction
	Color  int    // background behind black letters, an index of the terminal's 256 colors
	Milli  hybrid.Milli
}

// Seats returns the online CPUs in the order of their IDs.
func (m *Map) Seats() []Seat {
	cells := m.cells()
	seats := make([]Seat, 0, len(cells))
	for cpu := range m.Machine.Online.All() {
		c := cells[cpu]
		seat := Seat{CPU: cpu, Pool: c.pool.String(), Sign: c.sign(), Flexible: c.flexible, HasForeign: c.hasForeign}
		for _, p := range c.parts {
			seat.Parts = append(seat.Parts, Part{p.id, p.letter(c.pool), p.style().bg, p.milli})
		}
		seats = append(seats, seat)
	}
	return seats
}

// Tag returns the letter and the color of a sensitive container.
func (m *Map) Tag(id string) (letter string, color int) {
	p := part{tag: m.tags().number[id]}
	return p.letter(exclusive), p.style().bg
}
