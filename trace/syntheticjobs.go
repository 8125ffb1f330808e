package trace

import (
	"math"
	"math/bits"
)

// changeMachine sets e to the removal or the return of a machine, and plans the opposite event.
func (r *synthetic) changeMachine(e *Event, d *due) {
	m := &r.machines[d.ref]
	*e = Event{Time: d.time, Kind: MachineRemove, Machine: d.ref}
	if d.kind() == dueRemove {
		r.plan(d.time+r.logNormal(downMedian, downSigma), dueAdd, d.ref)
		return
	}
	e.Kind, e.CPU, e.Memory = MachineAdd, m.cpu, m.memory
	r.plan(d.time+r.exponential(1/float64(m.rate)), dueRemove, d.ref)
}

// newHour sets the rate of jobs for the next hour.
func (r *synthetic) newHour(now Micros) {
	r.hour = int64(now / Hour)
	r.level = hourMemory*r.level + math.Sqrt(1-hourMemory*hourMemory)*r.rng.NormFloat64()
	noise := math.Exp(hourSigma*r.level - hourSigma*hourSigma/2)
	weekend, hour := r.calendar()
	r.rate = (r.jobs[0] + r.jobs[1] + r.jobs[2] + r.jobs[3]) / 3600 * hourly[weekend][hour] * noise
	if now == 0 {
		r.plan(r.exponential(1/r.rate), dueJob, 0)
	}
	r.plan(now+Hour, dueHour, 0)
}

// calendar returns the hour of the day. weekend is 1 at the weekend, and 0 on other days.
func (r *synthetic) calendar() (weekend int, hour int64) {
	since := r.hour + firstHour // hours since the start of the first Sunday
	if day := since / 24 % 7; day == 0 || day == 6 {
		weekend = 1
	}
	return weekend, since % 24
}

// shortJob draws a job with short containers, and returns its number in batches.
func (r *synthetic) shortJob() uint32 {
	u, class := r.rng.Float64()*(r.jobs[0]+r.jobs[1]+r.jobs[2]+r.jobs[3]), 0
	for class < len(r.jobs)-1 && u >= r.jobs[class] {
		u -= r.jobs[class]
		class++
	}
	k := &cellClasses[class]
	tasks := r.size(arriving, class)
	time := &r.times[class][bits.Len(uint(tasks))]
	runs := seconds(k.median * math.Pow(tasks, sizeFactor) * math.Exp(k.sigma*time.normal()))
	return r.addJob(batch{member: r.draw(arriving, uint8(class), uint32(tasks)), tasks: uint32(tasks), runs: runs})
}

// longJob draws a job with long containers, and returns its number in batches.
func (r *synthetic) longJob(class int) uint32 {
	tasks := uint32(r.size(running, class))
	b := batch{member: r.draw(running, uint8(class), tasks), tasks: tasks}
	b.long = true
	return r.addJob(b)
}

// addJob sets the job's ID, and adds the job to batches until all of its tasks have arrived.
func (r *synthetic) addJob(b batch) uint32 {
	b.job = r.nextJob
	r.nextJob++
	return r.batches.put(b)
}

// taskSigma is the sigma of the log-normal durations of tasks within a job.
const taskSigma = 0.3

// startTask sets e to the start of the next task of a job.
func (r *synthetic) startTask(e *Event, now Micros, i uint32) {
	b := r.nextTask(now, i)
	m := b.member
	switch runs := Micros(float64(b.runs) * math.Exp(taskSigma*r.rng.NormFloat64())); {
	case m.long:
		r.start(e, now, m, r.drawDuration(&m))
	case m.class == 2 && r.rng.Float64() < r.broken():
		m.loops = int32(r.rng.ExpFloat64() * loopMean)
		r.start(e, now, m, r.drawDuration(&m))
	default:
		r.start(e, now, m, runs)
	}
}

// broken returns the present share of broken containers in class 2.
func (r *synthetic) broken() float64 {
	if weekend, hour := r.calendar(); weekend == 1 || hour < 8 || hour >= 20 {
		return loopShareRest
	}
	return loopShareWork
}
