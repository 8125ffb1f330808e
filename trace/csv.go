package trace

import (
	"io"
	"slices"
	"strings"
)

// Columns of the CSV format, as indexes of plainColumns.
const (
	plainTime = iota
	plainEvent
	plainMachine
	plainJob
	plainTask
	plainCPU
	plainMemory
	plainClass
	plainPriority
	plainDifferent
	plainReason
	plainCount
)

var plainColumns = strings.Split("time,event,machine,job,task,cpu,memory,class,priority,different-machines,reason", ",")

// plainClasses are the values of the column class.
var plainClasses = []Class{{"flexible", false}, {"sensitive", true}}

// A plainReader reads a file in the CSV format that docs/reference/trace-formats.md defines. The first line names the columns.
type plainReader struct {
	source
	*table
	column   [plainCount]int // maps a column to its index in the file; -1 if the file does not have it
	names    int             // number of columns in the file
	last     Micros
	machines map[string]*namedMachine
	live     tasks
}

type namedMachine struct {
	number uint32
	there  bool
}

// openPlain opens a file in the CSV format.
func openPlain(s spec, o Options) (Reader, error) {
	t, err := openTable(s.path)
	if err != nil {
		return nil, err
	}
	p, err := newPlain(s, o, t)
	if err != nil {
		_ = t.close() // the file was only read
	}
	return p, err
}

func newPlain(s spec, o Options, t *table) (Reader, error) {
	p := &plainReader{table: t, machines: map[string]*namedMachine{}}
	p.lenient = o.Lenient
	p.header = Header{Name: "csv", Source: s.text, Unit: Milli, Classes: plainClasses}
	if err := p.readNames(); err != nil {
		return nil, err
	}
	return p, nil
}

// Close implements Reader.
func (p *plainReader) Close() error { return p.table.close() }

// readNames reads the names of the columns in the first line.
func (p *plainReader) readNames() error {
	if err := p.table.next(); err == io.EOF {
		return p.rowError("empty", "the first line must name the columns, such as time,event,machine,job,task,cpu,memory")
	} else if err != nil {
		return err
	}
	for i := range p.column {
		p.column[i] = -1
	}
	p.names = len(p.fields)
	for i, name := range p.fields {
		known := slices.Index(plainColumns, strings.TrimPrefix(string(name), "\ufeff"))
		switch {
		case known < 0:
			return p.rowError("column", "%q: must be one of %s", shorten(name), strings.Join(plainColumns, ","))
		case p.column[known] >= 0:
			return p.rowError("column", "%q is there twice", name)
		}
		p.column[known] = i
	}
	for _, needed := range []int{plainTime, plainEvent, plainMachine, plainJob, plainCPU} {
		if p.column[needed] < 0 {
			return p.rowError("column", "%s is missing: time, event, machine, job and cpu are required", plainColumns[needed])
		}
	}
	return nil
}

// get returns a field of the current row, or nil if the file does not have the column.
func (p *plainReader) get(column int) []byte {
	if p.column[column] < 0 {
		return nil
	}
	return p.fields[p.column[column]]
}

// bad returns the error for an invalid value of the current row.
func (p *plainReader) bad(column int, want string) error {
	return p.rowError(plainColumns[column], "%q: must be %s", shorten(p.get(column)), want)
}

// Next implements Reader.
func (p *plainReader) Next(e *Event) error {
	for {
		err := p.readRow(e)
		if err == nil {
			return nil
		}
		if err = p.forgive(err); err != nil {
			return err
		}
	}
}

// readRow reads the next row as an event.
func (p *plainReader) readRow(e *Event) error {
	if err := p.table.next(); err != nil {
		return err
	}
	if err := p.checkFields(p.names); err != nil {
		return err
	}
	t, ok := parseScaled(p.get(plainTime), 6)
	if !ok {
		return p.bad(plainTime, "seconds since the start, such as 0 or 12.5")
	}
	if Micros(t) < p.last {
		return p.rowError("events out of order", "%s after %v", p.get(plainTime), p.last.Seconds())
	}
	*e = Event{Time: Micros(t), Flags: atStart(Micros(t))}
	var err error
	switch kind := slices.Index(kindWords[:], string(p.get(plainEvent))); Kind(max(kind, 0)) {
	case MachineAdd, MachineRemove, MachineUpdate:
		e.Kind = Kind(kind)
		err = p.readMachine(e)
	case Submit:
		e.Kind = Submit
		err = p.readSubmit(e)
	case End:
		err = p.readEnd(e)
	default:
		err = p.bad(plainEvent, strings.Join(kindWords[1:], ", "))
	}
	if err == nil {
		p.last = e.Time
	}
	return err
}
