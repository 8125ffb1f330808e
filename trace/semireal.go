package trace

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
)

// semiRealEnd is the time of the last machine event of the real month.
const semiRealEnd = 2_506_136 * Second

// Parameters of the semi-real month that the data do not contain. The parts are the available files of the table task_events.
const (
	longAge   = 2000 * Second // a container that is older than this at the end of the parts counts as long
	lasting   = 0.62          // share of ended long containers that are replaced; with 0.62, the requested CPU stays as in the parts
	taskScale = 1.6           // factor for the tasks of a job: the job table has only 15.9 of 25.4 million tasks
	taskLeast = 0.34          // minimum share of a job's duration for which a task runs
)

var jobColumns = strings.Split("job_id,submit_us,schedule_us,end_us,end_event,sched_class,user_id,logical_name_id,n_tasks,cpu_request,src", ",")

// Columns of the job table.
const (
	jobID       = 0
	jobSubmit   = 1
	jobSchedule = 2
	jobEnd      = 3
	jobClass    = 5
	jobTasks    = 8
	jobCPU      = 9
)

// A semiReal extends the available parts of Google's trace to a month. It has the real machines, the real tasks of the parts, and
// afterwards the jobs of a table that was derived from the trace. It draws random ends for the tasks that run at the end of the parts, and
// random durations for the tasks of the jobs.
type semiReal struct {
	*population
	parts   *google
	jobs    *table
	row     batch    // the next job of the table
	rowTime Micros   // time of row; math.MaxInt64 after the last job
	ready   bool     // row is valid and not used yet
	real    bool     // the parts have not ended yet
	started []Micros // start of the container in each slot; only set during the parts
	last    Micros
}

// openSemiReal opens a directory with ClusterData 2011 and the job table.
func openSemiReal(s spec, o Options) (Reader, error) {
	jobs, err := openMaybeZipped(filepath.Join(s.path, "jobs_2011_imputed.csv"))
	if err != nil {
		return nil, err
	}
	parts, err := openGoogle(s, o)
	if err != nil {
		_ = jobs.close() // the file was only read
		return nil, err
	}
	r, err := newSemiReal(s, jobs, parts.(*google))
	if err != nil {
		return nil, errors.Join(err, parts.Close(), jobs.close())
	}
	return r, nil
}

func newSemiReal(s spec, jobs *table, parts *google) (Reader, error) {
	seed := uint64(1)
	if err := s.number("seed", &seed, 0, math.MaxInt64); err != nil {
		return nil, err
	}
	c, err := newCrowd(seed, semiRealEnd)
	if err != nil {
		return nil, err
	}
	parts.header.Name, parts.header.Span = "semi-real", semiRealEnd
	if err := jobs.columns(jobColumns); err != nil {
		return nil, err
	}
	return &semiReal{population: c, parts: parts, jobs: jobs, real: true}, nil
}

// Header implements Reader.
func (r *semiReal) Header() Header { return r.parts.Header() }

// Report implements Reader.
func (r *semiReal) Report() Report { return r.parts.Report() }

// Close implements Reader.
func (r *semiReal) Close() error { return errors.Join(r.parts.Close(), r.jobs.close()) }

// Next implements Reader.
func (r *semiReal) Next(e *Event) error {
	if r.real {
		err := r.parts.Next(e)
		if err == nil {
			r.recordTask(e)
			return nil
		}
		if err != io.EOF {
			return err
		}
		r.real = false
		r.planEnds()
	}
	for {
		ok, err := r.step(e)
		if err != nil {
			if err = r.parts.forgive(err); err != nil {
				return err
			}
		} else if ok {
			return nil
		}
	}
}

// recordTask records a task that starts during the parts.
func (r *semiReal) recordTask(e *Event) {
	r.last = e.Time
	if e.Kind != Submit {
		return
	}
	for int(e.Container) >= len(r.live) {
		r.live = append(r.live, member{})
		r.started = append(r.started, 0)
	}
	r.started[e.Container] = e.Time
	r.live[e.Container] = member{job: e.Job, task: e.Task,
		shape: shape{e.CPU, e.Memory, e.Class, e.Priority, e.Flags &^ AtStart}}
}

// planEnds draws the ends of the tasks that run at the end of the parts.
func (r *semiReal) planEnds() {
	r.slots = r.parts.slots
	free := make([]bool, len(r.live))
	for _, slot := range r.slots.free {
		free[slot] = true
	}
	for slot := range r.live {
		if free[slot] {
			continue
		}
		m := &r.live[slot]
		m.long = r.last-r.started[slot] > longAge
		m.lasts = m.long && r.rng.Float64() < lasting
		r.plan(r.last+r.drawDuration(m), dueEnd, uint32(slot))
	}
}

// step processes the earliest of the next machine row, the next job and the next due event. It reports whether it has set e.
func (r *semiReal) step(e *Event) (bool, error) {
	if !r.parts.more.machines {
		if err := advance(r.parts.machines, &r.parts.more.machines); err != nil {
			return false, err
		}
	}
	if !r.ready {
		if err := r.nextJob(); err != nil {
			return false, err
		}
		r.ready = true
	}
	next := Micros(math.MaxInt64)
	if len(r.heap) > 0 {
		next = r.heap[0].time
	}
	switch {
	case r.parts.more.machines && r.parts.machines.time <= min(next, r.rowTime):
		r.parts.more.machines = false
		return true, r.parts.machine(e)
	case r.rowTime < next:
		r.ready = false
		r.startTask(e, r.rowTime, r.batches.put(r.row))
		return true, nil
	case len(r.heap) == 0:
		return false, io.EOF
	}
	switch d := r.pop(); d.kind() {
	case dueEnd:
		r.end(e, d.time, d.ref)
	case dueAgain:
		r.resubmit(e, d.time, d.ref)
	case dueTask:
		r.startTask(e, d.time, d.ref)
	}
	return true, nil
}
