package trace

import (
	"bytes"
	"math"
	"slices"
	"strings"
)

// readMachine fills in the event of a machine from the current row.
func (p *plainReader) readMachine(e *Event) error {
	name := p.get(plainMachine)
	m := p.machines[string(name)]
	there := m != nil && m.there
	switch {
	case len(name) == 0:
		return p.bad(plainMachine, "the machine's name")
	case e.Kind == MachineAdd && there:
		return p.rowError("machine added twice", "%q", shorten(name))
	case e.Kind != MachineAdd && !there:
		return p.rowError("unknown machine", "%q was not added before", shorten(name))
	}
	var c capacity
	if e.Kind != MachineRemove {
		var err error
		if c, err = p.capacity(math.Floor); err != nil {
			return err
		}
		if c.cpu == 0 {
			return p.bad(plainCPU, "the machine's CPUs, such as 16")
		}
		p.addCapacity(c)
	}
	if m == nil {
		m = &namedMachine{number: uint32(len(p.machines))}
		p.machines[string(name)] = m
	}
	m.there = e.Kind != MachineRemove
	e.Machine, e.CPU, e.Memory = m.number, c.cpu, c.memory
	return nil
}

// capacity reads CPU and memory of the current row. round rounds to MiB: down for machines and up for containers, so that a container never
// fits on a machine only because of the rounding.
func (p *plainReader) capacity(round func(float64) float64) (capacity, error) {
	cpu, ok := parseCPU(p.get(plainCPU))
	if !ok {
		return capacity{}, p.bad(plainCPU, "a number of CPUs such as 2, 1.5 or 1500m")
	}
	memory, ok := parseMemory(p.get(plainMemory), round)
	if !ok {
		return capacity{}, p.bad(plainMemory, "bytes, such as 512Mi or 4Gi")
	}
	return capacity{cpu, memory}, nil
}

// readName reads the job and the task of the current row.
func (p *plainReader) readName(e *Event) error {
	job := p.get(plainJob)
	if len(job) == 0 {
		return p.bad(plainJob, "a number or a name")
	}
	task, ok := uint64(0), true
	if field := p.get(plainTask); len(field) > 0 {
		task, ok = parseUint(field)
	}
	if !ok || task > math.MaxUint32 {
		return p.bad(plainTask, "a number")
	}
	e.Job, e.Task = JobNumber(job), uint32(task)
	return nil
}

// readSubmit fills in a Submit from the current row.
func (p *plainReader) readSubmit(e *Event) error {
	if err := p.readName(e); err != nil {
		return err
	}
	if _, known := p.live.slot(e.Job, e.Task); known {
		return p.rowError("submitted twice", "task %d of job %q has not ended", e.Task, shorten(p.get(plainJob)))
	}
	c, err := p.capacity(math.Ceil)
	if err != nil {
		return err
	}
	if len(p.get(plainCPU)) == 0 {
		e.Flags |= NoRequest
	}
	if err := p.readAttributes(e); err != nil {
		return err
	}
	if err := p.checkFits(c, p.table); err != nil {
		return err
	}
	e.CPU, e.Memory = c.cpu, c.memory
	e.Container = p.slots.take()
	p.live.put(e.Job, e.Task, e.Container)
	return nil
}

// readAttributes reads the optional fields of a Submit.
func (p *plainReader) readAttributes(e *Event) error {
	switch class := p.get(plainClass); string(class) {
	case "", "flexible":
	case "sensitive":
		e.Class = 1
	default:
		return p.bad(plainClass, "sensitive or flexible")
	}
	if field := p.get(plainPriority); len(field) > 0 {
		priority, ok := parseUint(field)
		if !ok || priority > math.MaxUint8 {
			return p.bad(plainPriority, "0 to 255")
		}
		e.Priority = uint8(priority)
	}
	switch different := p.get(plainDifferent); string(different) {
	case "", "0":
	case "1":
		e.Flags |= DifferentMachines
	default:
		return p.bad(plainDifferent, "0 or 1")
	}
	return nil
}

// readEnd fills in an End from the current row.
func (p *plainReader) readEnd(e *Event) error {
	if err := p.readName(e); err != nil {
		return err
	}
	reason := 0
	if word := p.get(plainReason); len(word) > 0 {
		if reason = slices.Index(reasonWords[:], string(word)); reason < 0 {
			return p.bad(plainReason, strings.Join(reasonWords[:], ", "))
		}
	}
	slot, known := p.live.slot(e.Job, e.Task)
	if !known {
		return p.rowError("an end without a start", "task %d of job %q", e.Task, shorten(p.get(plainJob)))
	}
	p.live.remove(e.Job, e.Task)
	p.slots.give(slot)
	*e = Event{Time: e.Time, Kind: End, Job: e.Job, Task: e.Task, Container: slot, Reason: Reason(reason)}
	return nil
}

// cpuUnits are the suffixes of amounts of CPU, with the power of ten that converts an amount to milli-CPU.
var cpuUnits = []struct {
	suffix string
	digits int
}{{"m", 0}, {"u", -3}, {"n", -6}, {"", 3}}

// parseCPU parses an amount of CPU in Kubernetes' format, and returns milli-CPU. An empty field is 0.
func parseCPU(field []byte) (int32, bool) {
	if len(field) == 0 {
		return 0, true
	}
	for _, u := range cpuUnits {
		if text, ok := bytes.CutSuffix(field, []byte(u.suffix)); ok {
			n, ok := parseScaled(text, u.digits)
			return int32(n), ok && n <= math.MaxInt32
		}
	}
	return 0, false
}

// memoryUnits are the suffixes of amounts of memory, longer suffixes first.
var memoryUnits = []struct {
	suffix string
	bytes  float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
	{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}, {"m", 1e-3},
}

// parseMemory parses an amount of memory in Kubernetes' format, and returns MiB. An empty field is 0.
func parseMemory(field []byte, round func(float64) float64) (int32, bool) {
	if len(field) == 0 {
		return 0, true
	}
	unit := 1.0
	for _, u := range memoryUnits {
		if text, ok := bytes.CutSuffix(field, []byte(u.suffix)); ok {
			field, unit = text, u.bytes
			break
		}
	}
	n, ok := parseScaled(field, 3)
	mib := round(float64(n) / 1000 * unit / (1 << 20))
	return int32(mib), ok && mib <= math.MaxInt32
}
