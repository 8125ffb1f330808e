package trace

import (
	"errors"
	"io"
	"math"
)

// Event types of machine_events and task_events, from Google's description of the format (2014).
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

// googleReasons maps the event types 2 to 6, in this order, to Reasons.
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

// afterTrace is the time that the source gives to events after the end of the trace.
const afterTrace = math.MaxInt64

// pendingSlot marks a task that waits for its start.
const pendingSlot = math.MaxUint32 - 1

// A google reads ClusterData 2011: machine_events and task_events, merged.
type google struct {
	source
	machines *googleTable
	tasks    *googleTable
	more     struct{ machines, tasks bool } // whether the table has a current row that no event was made of yet
	submits  bool                           // containers start at their SUBMIT row instead of their SCHEDULE row
	middle   bool                           // the first available part of task_events is not part 0
	numbers  map[uint64]*googleMachine
	live     tasks
}

type googleMachine struct {
	capacity
	number uint32
	there  bool
}

// openGoogle opens a folder of ClusterData 2011.
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

// step handles the earlier of the current rows of both tables. It reports whether the row became an event in e.
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
	case !g.more.tasks: // the trace ends with the last available task row, although the machine events cover the whole month
		return false, io.EOF
	case g.more.machines && g.machines.time <= g.tasks.time:
		g.more.machines = false
		return true, g.machine(e)
	default:
		g.more.tasks = false
		return g.task(e)
	}
}

// advance reads the next row of a table. At the end of the table, it sets *more to false.
func advance(t *googleTable, more *bool) error {
	err := t.next()
	if err == io.EOF {
		return nil
	}
	*more = err == nil
	return err
}

// machine turns the row of machine_events into an event.
func (g *google) machine(e *Event) error {
	t := g.machines
	id, ok := parseUint(t.field(1))
	if !ok {
		return t.wrong("machine id", "%q: must be a number", shorten(t.field(1)))
	}
	m := g.numbers[id]
	*e = Event{Time: t.time, Flags: atStart(t.time)}
	switch kind := t.field(2); {
	case len(kind) != 1 || kind[0] < '0' || kind[0] > '2':
		return t.wrong("event type", "%q: must be 0 (ADD), 1 (REMOVE) or 2 (UPDATE)", shorten(kind))
	case kind[0]-'0' == googleAdd:
		if m != nil && m.there {
			return t.wrong("machine added twice", "%d", id)
		}
		e.Kind = MachineAdd
	case m == nil || !m.there:
		return t.wrong("unknown machine", "%d was not added before", id)
	case kind[0]-'0' == googleRemove:
		m.there = false
		e.Kind, e.Machine = MachineRemove, m.number
		return nil
	case kind[0]-'0' == googleUpdate:
		e.Kind = MachineUpdate
	}
	return g.machineCapacity(e, id, m)
}

// machineCapacity records the capacity of a machine. A row without a capacity keeps the former capacity.
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
	g.grow(c)
	e.Machine, e.CPU, e.Memory = m.number, c.cpu, c.memory
	return nil
}

// amount reads a fraction of the largest machine into to. An empty field leaves to unchanged.
func (g *google) amount(t *googleTable, column int, what string, to *int32) error {
	field := t.field(column)
	if len(field) == 0 {
		return nil
	}
	n, ok := parseScaled(field, 9)
	if !ok || n > One {
		return t.wrong(what, "%q: must be a fraction of the largest machine, from 0 to 1", shorten(field))
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
