package trace

import "io"

// A Memory is a trace in memory, for tests and repeated reads.
type Memory struct {
	header Header
	events []Event
	at     int // index of the next event
}

// NewMemory returns a Reader of events, which must be sorted by time.
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

// Report implements Reader. It is always empty.
func (m *Memory) Report() Report { return Report{} }

// Close implements Reader. After Close, Next starts again with the first event.
func (m *Memory) Close() error {
	m.at = 0
	return nil
}
