package trace

import (
	"fmt"
	"io"
	"math"
	"strconv"
)

// A synthetic generates the trace of a cell like Google's, of any size and duration. It only stores the machines and the running
// containers.
type synthetic struct {
	*population
	header   Header
	machines []machineState
	first    []batch // jobs that run at the start
	at       int     // number of machines for which Next has returned an event
	nextJob  uint64
	scale    float64    // number of machines relative to the real cell
	most     float64    // maximum number of tasks of a job; lower in a small cell
	jobs     [4]float64 // short jobs per hour, by class
	level    float64    // noise of the present hour: a standard normal value
	hour     int64
	rate     float64 // present number of jobs per second
}

type machineState struct {
	capacity
	rate float32 // removals per second
}

// openSynthetic opens the generator, by default with machines=12500,days=29,seed=1.
func openSynthetic(s spec, _ Options) (Reader, error) {
	machines, days, seed := uint64(12500), 29.0, uint64(1)
	if err := s.number("machines", &machines, 1, 10_000_000); err != nil {
		return nil, err
	}
	if err := s.number("seed", &seed, 0, math.MaxInt64); err != nil {
		return nil, err
	}
	if text, given := s.options["days"]; given {
		d, err := strconv.ParseFloat(text, 64)
		if err != nil || !(d > 0 && d <= 3660) {
			return nil, fmt.Errorf("%w %q: days %q: must be a number above 0, at most 3660", ErrSpec, s.text, text)
		}
		days = d
	}
	c, err := newCrowd(seed, Micros(days*float64(Day)))
	if err != nil {
		return nil, err
	}
	r := &synthetic{population: c, scale: float64(machines) / cellMachines}
	r.header = Header{Name: "synthetic", Source: s.text, Unit: LargestMachine, Classes: googleClasses(), Machines: int64(machines), Span: c.horizon}
	r.setJobs()
	r.drawMachines(int(machines))
	r.drawFirst()
	r.plan(0, dueHour, 0)
	return r, nil
}

// number parses an option that is an integer.
func (s *spec) number(name string, to *uint64, least, most uint64) error {
	text, given := s.options[name]
	if !given {
		return nil
	}
	n, ok := parseUint([]byte(text))
	if !ok || n < least || n > most {
		return fmt.Errorf("%w %q: %s %q: must be a number from %d to %d", ErrSpec, s.text, name, text, least, most)
	}
	*to = n
	return nil
}

// drawMachines creates the machines in random order, with the shares of sizes from the real cell.
func (r *synthetic) drawMachines(n int) {
	r.machines = make([]machineState, n)
	kind, below := 0, machineTypes[0].count
	for i := range r.machines {
		for (float64(i)+0.5)/float64(n)*cellMachines > float64(below) {
			kind++
			below += machineTypes[kind].count
		}
		r.machines[i].capacity = machineTypes[kind].capacity
	}
	r.rng.Shuffle(n, func(i, j int) { r.machines[i], r.machines[j] = r.machines[j], r.machines[i] })
	for i := range r.machines {
		m := &r.machines[i]
		m.rate = float32(removalsPerDay / Day.Seconds() * r.rng.ExpFloat64())
		r.plan(r.exponential(1/float64(m.rate)), dueRemove, uint32(i))
	}
}

// drawFirst creates the jobs that run at the start, in random order. The requests of their containers have the quantiles of the real cell,
// and the jobs have the sizes of the real cell.
func (r *synthetic) drawFirst() {
	for class := range cellClasses {
		k := &cellClasses[class]
		for _, c := range r.cell[running][class] {
			left := k.running*r.scale/100 + r.rng.Float64()
			for left >= 1 {
				tasks := min(left, r.size(running, class))
				g := batch{member: r.draw(running, uint8(class), uint32(tasks)), tasks: uint32(tasks)}
				g.long = r.rng.Float64() >= k.short
				g.cpu, g.memory = c.cpu, c.memory
				g.flags |= AtStart
				r.first = append(r.first, g)
				left -= float64(g.tasks)
			}
		}
		r.planLong(0, class, 1)
	}
	r.rng.Shuffle(len(r.first), func(i, j int) { r.first[i], r.first[j] = r.first[j], r.first[i] })
}

// planLong plans the next job with long containers of a class. On average, as many long containers arrive as end without a resubmission. So
// the mean time until the next job is the number of tasks of the previous job (tasks), divided by the rate of these ends.
func (r *synthetic) planLong(now Micros, class int, tasks uint32) {
	k := &cellClasses[class]
	perSecond := k.running * (1 - k.short) * r.scale / k.longLife * (1 - k.longEnds[Evicted])
	r.plan(now+r.exponential(float64(tasks)/perSecond), dueLong, uint32(class))
}

// size draws the number of tasks of a job.
func (r *synthetic) size(population, class int) float64 {
	return min(jobSize(class, r.turns[population][class][0].next()), r.most)
}

// jobSize returns the quantile u of the tasks per job of a class, interpolated geometrically between the known quantiles.
func jobSize(class int, u float64) float64 {
	low := sizeQuantile{0, 1}
	for _, high := range cellClasses[class].sizes {
		if u < high.share {
			return math.Floor(low.tasks * math.Pow(high.tasks/low.tasks, (u-low.share)/(high.share-low.share)))
		}
		low = high
	}
	return low.tasks
}

// setJobs sets the rates of short jobs. In a cell that is too small for the largest jobs, smaller jobs are more frequent, so that the
// number of tasks per machine is the same.
func (r *synthetic) setJobs() {
	const steps = 10_000
	r.most = max(1, math.Floor(maxJobSize*min(r.scale, 1)))
	for class := range cellClasses {
		all, kept := 0.0, 0.0
		for i := range steps {
			n := jobSize(class, (float64(i)+0.5)/steps)
			all += n
			kept += min(n, r.most)
		}
		r.jobs[class] = jobsPerHour * r.scale * cellClasses[class].jobs * all / kept
	}
}

// Header implements Reader.
func (r *synthetic) Header() Header { return r.header }

// Report implements Reader: no part is omitted.
func (r *synthetic) Report() Report { return Report{} }

// Close implements Reader.
func (r *synthetic) Close() error { return nil }

// Next implements Reader.
func (r *synthetic) Next(e *Event) error {
	if r.at < len(r.machines) {
		m := r.machines[r.at]
		*e = Event{Kind: MachineAdd, Machine: uint32(r.at), CPU: m.cpu, Memory: m.memory, Flags: AtStart}
		r.at++
		return nil
	}
	if len(r.first) > 0 {
		r.startFirst(e)
		return nil
	}
	for len(r.heap) > 0 {
		d := r.pop()
		if r.handle(e, &d) {
			return nil
		}
	}
	return io.EOF
}

// startFirst sets e to the next container that runs at the start.
func (r *synthetic) startFirst(e *Event) {
	g := &r.first[0]
	m := g.member
	m.job = r.nextJob
	runs := r.drawDuration(&m)
	if k := &cellClasses[m.class]; !m.long { // the trace starts at a random time within the duration, so only the rest remains
		runs = Micros(float64(r.logNormal(k.median*math.Exp(k.sigma*k.sigma), k.sigma)) * r.rng.Float64())
	}
	r.start(e, 0, m, runs)
	g.task++
	if g.task == g.tasks {
		r.first = r.first[1:]
		r.nextJob++
	}
}

// handle processes a due event, and reports whether it has set e to an event of the trace.
func (r *synthetic) handle(e *Event, d *due) bool {
	switch d.kind() {
	case dueAdd, dueRemove:
		r.changeMachine(e, d)
	case dueHour:
		r.newHour(d.time)
		return false
	case dueEnd:
		r.end(e, d.time, d.ref)
	case dueAgain:
		r.resubmit(e, d.time, d.ref)
	case dueJob:
		r.plan(d.time+r.exponential(1/r.rate), dueJob, 0)
		r.startTask(e, d.time, r.shortJob())
	case dueTask:
		r.startTask(e, d.time, d.ref)
	case dueLong:
		job := r.longJob(int(d.ref))
		r.planLong(d.time, int(d.ref), r.batches.all[job].tasks)
		r.startTask(e, d.time, job)
	}
	return true
}
