package trace

import (
	"errors"
	"io"
)

// A source is the common part of the readers of external traces: the counts of omitted parts, the slots, and the largest machine.
type source struct {
	header  Header
	lenient bool
	skipped tally
	notes   tally
	slots   slots
	largest capacity // maximum CPU and maximum memory of all machines so far
}

// A capacity is an amount of CPU and memory in the unit of the trace.
type capacity struct{ cpu, memory int32 }

// Header implements Reader.
func (s *source) Header() Header { return s.header }

// Report implements Reader.
func (s *source) Report() Report { return Report{s.skipped.counts, s.notes.counts} }

// forgive returns nil if the reader is lenient and err is a *SyntaxError, which forgive then counts as a skipped part. Otherwise
// it returns err.
func (s *source) forgive(err error) error {
	var fault *SyntaxError
	if !s.lenient || !errors.As(err, &fault) {
		return err
	}
	s.skipped.add(fault.Problem, fault.place())
	return nil
}

// rows calls the function row for each row of a table. A row without the given number of fields is invalid.
func (s *source) rows(t *table, fields int, row func() error) error {
	for {
		err := t.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = t.checkFields(fields)
		}
		if err == nil {
			err = row()
		}
		if err = s.forgive(err); err != nil {
			return err
		}
	}
}

// addCapacity updates the field largest with the capacity of a machine.
func (s *source) addCapacity(c capacity) {
	s.largest.cpu = max(s.largest.cpu, c.cpu)
	s.largest.memory = max(s.largest.memory, c.memory)
}

// checkFits returns an error if a request is larger than the largest machine.
func (s *source) checkFits(c capacity, t *table) error {
	switch {
	case c.cpu > s.largest.cpu:
		return t.rowError("CPU request above the largest machine", "%s, the largest has %s",
			s.header.Unit.cpuText(c.cpu), s.header.Unit.cpuText(s.largest.cpu))
	case c.memory > s.largest.memory:
		return t.rowError("memory request above the largest machine", "%s, the largest has %s",
			s.header.Unit.memoryText(c.memory), s.header.Unit.memoryText(s.largest.memory))
	}
	return nil
}

// A tally counts omitted parts by reason. The reasons are in the order of their first appearance.
type tally struct {
	index  map[string]int
	counts []Count
}

// add counts an omitted part at a location.
func (t *tally) add(what, place string) {
	i, known := t.index[what]
	if !known {
		if t.index == nil {
			t.index = map[string]int{}
		}
		i = len(t.counts)
		t.index[what] = i
		t.counts = append(t.counts, Count{Reason: what, First: place})
	}
	t.counts[i].N++
}

// slots allocates slots for containers. It reuses the last released slot first, so that the numbers stay small.
type slots struct {
	free []uint32
	next uint32
}

func (s *slots) take() uint32 {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	s.next++
	return s.next - 1
}

func (s *slots) give(slot uint32) { s.free = append(s.free, slot) }
