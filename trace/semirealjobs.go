package trace

import (
	"io"
	"math"
)

// nextJob reads the next job that was submitted after the end of the parts.
func (r *semiReal) nextJob() error {
	for {
		err := r.jobs.next()
		if err == io.EOF {
			r.rowTime = math.MaxInt64
			return nil
		}
		if err == nil {
			err = r.readJob()
		}
		if err != nil || r.rowTime > r.last {
			return err
		}
	}
}

// maxTasks bounds the number of tasks of a job in the table.
const maxTasks = 100_000

// readJob reads the job in the current row of the job table.
func (r *semiReal) readJob() error {
	t := r.jobs
	if err := t.checkFields(len(jobColumns)); err != nil {
		return err
	}
	var numbers [jobTasks + 1]uint64
	for _, column := range []int{jobID, jobSubmit, jobSchedule, jobClass, jobTasks} {
		n, ok := parseUint(t.fields[column])
		if !ok {
			return t.rowError(jobColumns[column], "%q: must be a number", shorten(t.fields[column]))
		}
		numbers[column] = n
	}
	end, ended := parseUint(t.fields[jobEnd])
	if len(t.fields[jobEnd]) == 0 {
		end, ended = math.MaxInt64, true
	}
	cpu, ok := parseScaled(t.fields[jobCPU], 9)
	missing := len(t.fields[jobCPU]) == 0
	switch {
	case !ended || end < numbers[jobSchedule]:
		return t.rowError("end_us", "%q: must be a time from schedule_us on, or empty", shorten(t.fields[jobEnd]))
	case !missing && (!ok || cpu > int64(r.parts.largest.cpu)):
		return t.rowError("cpu_request", "%q: must be a fraction of the largest machine, or empty", shorten(t.fields[jobCPU]))
	case numbers[jobClass] > 3:
		return t.rowError("sched_class", "%d: must be 0 to 3", numbers[jobClass])
	case numbers[jobTasks] == 0 || numbers[jobTasks] > maxTasks:
		return t.rowError("n_tasks", "%d: must be 1 to %d", numbers[jobTasks], maxTasks)
	case Micros(numbers[jobSubmit]) < r.rowTime:
		return t.rowError("events out of order", "%d after %d", numbers[jobSubmit], r.rowTime)
	}
	r.rowTime = Micros(numbers[jobSubmit])
	r.drawJob(&numbers, Micros(end-numbers[jobSchedule]), int32(cpu))
	if missing {
		r.row.flags |= NoRequest
	}
	return nil
}

// drawJob creates a job from the values of a row, and draws the values that the table does not contain.
func (r *semiReal) drawJob(numbers *[jobTasks + 1]uint64, runs Micros, cpu int32) {
	tasks := uint32(float64(numbers[jobTasks])*taskScale + r.rng.Float64())
	r.row = batch{member: r.draw(arriving, uint8(numbers[jobClass]), tasks), tasks: tasks, runs: min(runs, semiRealEnd)}
	r.row.job, r.row.cpu = numbers[jobID], cpu
}

// startTask sets e to the start of the next task of a job.
func (r *semiReal) startTask(e *Event, now Micros, i uint32) {
	b := r.nextTask(now, i)
	part := taskLeast + (1-taskLeast)*r.rng.Float64()
	r.start(e, now, b.member, 1+Micros(float64(b.runs)*part))
}
