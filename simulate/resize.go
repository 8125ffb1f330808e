package simulate

import (
	"errors"
	"io"

	"github.com/candor-project/candor/trace"
)

// ResizeMachines opens a trace and changes its number of machines. It omits or repeats machines of the trace at regular intervals, so that
// the proportions of the machine types do not change. Containers do not change.
func ResizeMachines(open func() (trace.Reader, error), machines int) (trace.Reader, error) {
	traceMachines, err := countMachines(open)
	if err != nil {
		return nil, err
	}
	if traceMachines == 0 {
		return nil, errors.New("the trace has no machines")
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	return &resizedReader{Reader: r, traceMachines: int64(traceMachines), machines: int64(machines)}, nil
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

// A resizedReader replaces each event of a machine by an event for each copy of the machine.
type resizedReader struct {
	trace.Reader
	traceMachines, machines int64
	event                   trace.Event // last event of a machine, to be repeated for the remaining copies
	next, end               uint32      // numbers of the remaining copies: from next to end, without end
}

// Next implements trace.Reader.
func (r *resizedReader) Next(e *trace.Event) error {
	for r.next == r.end {
		if err := r.Reader.Next(e); err != nil {
			return err
		}
		if e.Kind > trace.MachineUpdate {
			return nil
		}
		r.event = *e
		r.next, r.end = r.firstCopy(int64(e.Machine)), r.firstCopy(int64(e.Machine)+1)
	}
	*e = r.event
	e.Machine = r.next
	r.next++
	return nil
}

// firstCopy returns the number of a machine's first copy. All copies of the machine have lower numbers than the first copy of the next
// machine.
func (r *resizedReader) firstCopy(machine int64) uint32 {
	return uint32(machine * r.machines / r.traceMachines)
}
