package simulate

import (
	"errors"
	"io"

	"github.com/candor-project/candor/trace"
)

// ResizeMachines opens a trace with another number of machines: it omits or repeats the trace's machines at regular intervals, so that
// their mix stays. Containers do not change.
func ResizeMachines(open func() (trace.Reader, error), machines int) (trace.Reader, error) {
	had, err := countMachines(open)
	if err != nil {
		return nil, err
	}
	if had == 0 {
		return nil, errors.New("the trace has no machines")
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	return &resized{Reader: r, had: int64(had), machines: int64(machines)}, nil
}

// countMachines returns the number of machines in a trace.
func countMachines(open func() (trace.Reader, error)) (machines int, err error) {
	r, err := open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if n := r.Header().Machines; n > 0 {
		return int(n), nil
	}
	var e trace.Event
	for {
		if err := r.Next(&e); err == io.EOF {
			return machines, nil
		} else if err != nil {
			return 0, err
		}
		if e.Kind == trace.MachineAdd {
			machines = max(machines, int(e.Machine)+1)
		}
	}
}

// A resized trace replaces each event of a machine by an event for each of its copies.
type resized struct {
	trace.Reader
	had, machines int64
	event         trace.Event // event of the machine whose copies are pending
	next, end     uint32      // those that are left
}

// Next implements trace.Reader.
func (r *resized) Next(e *trace.Event) error {
	for r.next == r.end {
		if err := r.Reader.Next(e); err != nil {
			return err
		}
		if e.Kind > trace.MachineUpdate {
			return nil
		}
		r.event = *e
		r.next, r.end = r.first(int64(e.Machine)), r.first(int64(e.Machine)+1)
	}
	*e = r.event
	e.Machine = r.next
	r.next++
	return nil
}

// first returns the number of a machine's first copy; the first copy of the next machine has a higher number than all its copies.
func (r *resized) first(machine int64) uint32 { return uint32(machine * r.machines / r.had) }
