package trace

// task converts the current row of task_events to an event, or returns false if the row yields no event.
func (g *google) task(e *Event) (bool, error) {
	t := g.tasks
	if t.time == afterTrace {
		g.notes.add("events after the trace's end", t.place())
		return false, nil
	}
	job, okJob := parseUint(t.field(columnJob))
	index, okIndex := parseUint(t.field(columnTask))
	kind := t.field(columnEvent)
	switch {
	case !okJob:
		return false, t.rowError("job id", "%q: must be a number", shorten(t.field(columnJob)))
	case !okIndex || index > 1<<32-1:
		return false, t.rowError("task index", "%q: must be a number", shorten(t.field(columnTask)))
	case len(kind) != 1 || kind[0] < '0' || kind[0] > '8':
		return false, t.rowError("event type", "%q: must be 0 (SUBMIT) to 8 (UPDATE_RUNNING)", shorten(kind))
	}
	*e = Event{Time: t.time, Job: job, Task: uint32(index), Flags: atStart(t.time)}
	slot, known := g.live.slot(e.Job, e.Task)
	switch kind := kind[0] - '0'; kind {
	case googleSubmit:
		return g.submit(e, known)
	case googleSchedule:
		return g.schedule(e, slot, known)
	case googleUpdatePending, googleUpdateRunning:
		g.notes.add("requests that change", t.place())
		return false, nil
	default:
		e.Reason = googleReasons[kind-googleEvict]
		return g.end(e, slot, known)
	}
}

// submit processes a SUBMIT row.
func (g *google) submit(e *Event, known bool) (bool, error) {
	if known {
		return false, g.tasks.rowError("submitted twice", "task %d of job %d has not ended", e.Task, e.Job)
	}
	if g.submits {
		return g.start(e)
	}
	g.live.put(e.Job, e.Task, pendingSlot)
	return false, nil
}

// schedule processes a SCHEDULE row. It checks the machine in the row, but does not use it, because a replay places the container
// itself.
func (g *google) schedule(e *Event, slot uint32, known bool) (bool, error) {
	t := g.tasks
	machine, ok := parseUint(t.field(columnMachine))
	unknown := !ok || g.numbers[machine] == nil
	switch {
	case unknown && t.time > 0:
		return false, t.rowError("unknown machine", "%q was not added before", shorten(t.field(columnMachine)))
	case !known && !g.middle:
		return false, t.rowError("a start without a submit", "task %d of job %d", e.Task, e.Job)
	case g.submits && known:
		return false, nil
	case known && slot != pendingSlot:
		return false, t.rowError("started twice", "task %d of job %d runs", e.Task, e.Job)
	}
	if unknown { // true for 13 of the 132,982 tasks that run at the start
		g.notes.add("tasks that ran at the start on unknown machines", t.place())
	}
	return g.start(e)
}

// start converts the current row to a Submit.
func (g *google) start(e *Event) (bool, error) {
	t := g.tasks
	class, okClass := parseUint(t.field(columnClass))
	priority, okPriority := parseUint(t.field(columnPriority))
	switch {
	case !okClass || class > 3:
		return false, t.rowError("scheduling class", "%q: must be 0 to 3", shorten(t.field(columnClass)))
	case !okPriority || priority > 11:
		return false, t.rowError("priority", "%q: must be 0 to 11", shorten(t.field(columnPriority)))
	}
	if err := g.requests(e); err != nil {
		return false, err
	}
	e.Kind, e.Class, e.Priority = Submit, uint8(class), uint8(priority)
	e.Container = g.slots.take()
	g.live.put(e.Job, e.Task, e.Container)
	return true, nil
}

// requests reads the requests of a task. A row that Google added for a missing record has empty fields.
func (g *google) requests(e *Event) error {
	t := g.tasks
	if err := g.amount(t, columnCPU, "CPU request", &e.CPU); err != nil {
		return err
	}
	if err := g.amount(t, columnMemory, "memory request", &e.Memory); err != nil {
		return err
	}
	if len(t.field(columnCPU)) == 0 {
		e.Flags |= NoRequest
	}
	switch different := t.field(columnDifferent); string(different) {
	case "", "0":
	case "1":
		e.Flags |= DifferentMachines
	default:
		return t.rowError("different-machines", "%q: must be 0 or 1", shorten(different))
	}
	return g.checkFits(capacity{e.CPU, e.Memory}, &t.table)
}

// end processes a row with the end of a task. A task can end before it has started.
func (g *google) end(e *Event, slot uint32, known bool) (bool, error) {
	t := g.tasks
	switch {
	case !known && g.middle:
		g.notes.add("ends of tasks that started before the first part", t.place())
		return false, nil
	case !known:
		return false, t.rowError("an end without a start", "task %d of job %d", e.Task, e.Job)
	}
	g.live.remove(e.Job, e.Task)
	if slot == pendingSlot {
		g.notes.add("tasks that ended before they started", t.place())
		return false, nil
	}
	g.slots.give(slot)
	*e = Event{Time: e.Time, Kind: End, Job: e.Job, Task: e.Task, Container: slot, Reason: e.Reason}
	return true, nil
}
