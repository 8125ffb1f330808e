package trace

import "io"

// Memory is a trace in memory, for tests and repeated reads.
type Memory struct {
	header Header
	events []Event
	at     int
}

// NewMemory returns a Reader of events, which must be in the order of time.
func NewMemory(h Header, events []Event) *Memory {
	h.Events = int64(len(events))
	if len(events) > 0 {
		h.Span = events[len(events)-1].Time
	}
	return &Memory{header: h, events: events}
}

// Header implements Reader.
func (m *Memory) Header() Header { return m.header }

// Next implements Reader.
func (m *Memory) Next(e *Event) error {
	if m.at == len(m.events) {
		return io.EOF
	}
	*e = m.events[m.at]
	m.at++
	return nil
}

// Report implements Reader: no part is omitted.
func (m *Memory) Report() Report { return Report{} }

// Close implements Reader. A closed trace starts again from the beginning.
func (m *Memory) Close() error {
	m.at = 0
	return nil
}
