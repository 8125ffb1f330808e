package trace

import (
	"errors"
	"io"
	"math"
)

// Event types of Google's machine_events and task_events, from the schema of 2014.
const (
	googleAdd    = 0
	googleRemove = 1
	googleUpdate = 2

	googleSubmit        = 0
	googleSchedule      = 1
	googleEvict         = 2
	googleLost          = 6
	googleUpdatePending = 7
	googleUpdateRunning = 8
)

// googleReasons are the Reasons of event types 2 to 6.
var googleReasons = [...]Reason{Evicted, Failed, Finished, Killed, Lost}

// machineColumns is the number of columns of machine_events.
const machineColumns = 6

// Columns of task_events.
const (
	columnTime = iota
	columnMissing
	columnJob
	columnTask
	columnMachine
	columnEvent
	columnUser
	columnClass
	columnPriority
	columnCPU
	columnMemory
	columnDisk
	columnDifferent
	taskColumns
)

// afterTrace is the source's time of every event after the trace's end.
const afterTrace = math.MaxInt64

// pendingSlot is stored instead of a slot for a task that was submitted and has not started.
const pendingSlot = math.MaxUint32 - 1

// A google reads Google's ClusterData 2011. It merges the tables machine_events and task_events by time.
type google struct {
	source
	machines *googleTable
	tasks    *googleTable
	more     struct{ machines, tasks bool } // the current row of the table is not used yet
	submits  bool                           // containers start with SUBMIT rows instead of SCHEDULE rows
	middle   bool                           // the first available part is not the first part of the trace
	numbers  map[uint64]*googleMachine
	live     tasks
}

type googleMachine struct {
	capacity
	number uint32
	there  bool
}

// openGoogle opens a directory of ClusterData 2011.
func openGoogle(s spec, o Options) (Reader, error) {
	machines, err := openGoogleTable(s.path, "machine_events", machineColumns)
	if err != nil {
		return nil, err
	}
	tasks, err := openGoogleTable(s.path, "task_events", taskColumns)
	if err != nil {
		_ = machines.close() // the file was only read
		return nil, err
	}
	return newGoogle(s, o, machines, tasks), nil
}

func newGoogle(s spec, o Options, machines, tasks *googleTable) *google {
	g := &google{
		machines: machines, tasks: tasks, submits: s.submits, middle: tasks.number > 0,
		numbers: map[uint64]*googleMachine{},
	}
	g.lenient = o.Lenient
	g.header = Header{Name: "google2011", Source: s.text, Unit: LargestMachine, Classes: googleClasses()}
	return g
}

// googleClasses are the scheduling classes; 2 and 3 are latency-sensitive.
func googleClasses() []Class {
	return []Class{{"0", false}, {"1", false}, {"2", true}, {"3", true}}
}

// Close implements Reader.
func (g *google) Close() error {
	return errors.Join(g.machines.close(), g.tasks.close())
}

// Next implements Reader.
func (g *google) Next(e *Event) error {
	for {
		ok, err := g.step(e)
		if err != nil {
			if err = g.forgive(err); err != nil {
				return err
			}
		} else if ok {
			return nil
		}
	}
}

// step processes the earlier of the next rows of both tables, and reports whether the row yields an event.
func (g *google) step(e *Event) (bool, error) {
	if !g.more.machines {
		if err := advance(g.machines, &g.more.machines); err != nil {
			return false, err
		}
	}
	if !g.more.tasks {
		if err := advance(g.tasks, &g.more.tasks); err != nil {
			return false, err
		}
	}
	switch {
	case !g.more.tasks: // the trace ends with its tasks; the events of machines can continue for the rest of the month
		return false, io.EOF
	case g.more.machines && g.machines.time <= g.tasks.time:
		g.more.machines = false
		return true, g.machine(e)
	default:
		g.more.tasks = false
		return g.task(e)
	}
}

// advance reads the next row. It sets *more to true unless the table has ended.
func advance(t *googleTable, more *bool) error {
	err := t.next()
	if err == io.EOF {
		return nil
	}
	*more = err == nil
	return err
}

// machine converts the current row of machine_events to an event.
func (g *google) machine(e *Event) error {
	t := g.machines
	id, ok := parseUint(t.field(1))
	if !ok {
		return t.rowError("machine id", "%q: must be a number", shorten(t.field(1)))
	}
	m := g.numbers[id]
	*e = Event{Time: t.time, Flags: atStart(t.time)}
	switch kind := t.field(2); {
	case len(kind) != 1 || kind[0] < '0' || kind[0] > '2':
		return t.rowError("event type", "%q: must be 0 (ADD), 1 (REMOVE) or 2 (UPDATE)", shorten(kind))
	case kind[0]-'0' == googleAdd:
		if m != nil && m.there {
			return t.rowError("machine added twice", "%d", id)
		}
		e.Kind = MachineAdd
	case m == nil || !m.there:
		return t.rowError("unknown machine", "%d was not added before", id)
	case kind[0]-'0' == googleRemove:
		m.there = false
		e.Kind, e.Machine = MachineRemove, m.number
		return nil
	case kind[0]-'0' == googleUpdate:
		e.Kind = MachineUpdate
	}
	return g.machineCapacity(e, id, m)
}

// machineCapacity reads and stores the capacity of a machine. If the row has no capacity, the previous capacity remains.
func (g *google) machineCapacity(e *Event, id uint64, m *googleMachine) error {
	var c capacity
	if m != nil {
		c = m.capacity
	}
	if err := g.amount(g.machines, 4, "machine's CPU", &c.cpu); err != nil {
		return err
	}
	if err := g.amount(g.machines, 5, "machine's memory", &c.memory); err != nil {
		return err
	}
	if m == nil {
		m = &googleMachine{number: uint32(len(g.numbers))}
		g.numbers[id] = m
	}
	m.capacity, m.there = c, true
	g.addCapacity(c)
	e.Machine, e.CPU, e.Memory = m.number, c.cpu, c.memory
	return nil
}

// amount reads a field that is a fraction of the largest machine. An empty field does not change *to.
func (g *google) amount(t *googleTable, column int, what string, to *int32) error {
	field := t.field(column)
	if len(field) == 0 {
		return nil
	}
	n, ok := parseScaled(field, 9)
	if !ok || n > One {
		return t.rowError(what, "%q: must be a fraction of the largest machine, from 0 to 1", shorten(field))
	}
	*to = int32(n)
	return nil
}

// atStart returns the flag for objects from before the start of the trace.
func atStart(t Micros) Flags {
	if t == 0 {
		return AtStart
	}
	return 0
}
