package experiment

import (
	"slices"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/internal/procfs"
)

// Noise is the other activity of the machine during a run.
type Noise struct {
	Others float64 `json:"others"` // CPUs that other programs and interrupts used, on average
	Stolen float64 `json:"stolen"` // CPUs that the hypervisor gave to other virtual machines, on average
}

// A cpuReading is a reading of the machine's CPU times.
type cpuReading struct {
	at           time.Time
	busy, stolen time.Duration
	programs     map[int]time.Duration // CPU time of programs, without interrupts, by CPU
}

func (l *Lab) readCPUTimes() (cpuReading, error) {
	times, err := procfs.ReadCPUTimes()
	m := cpuReading{at: time.Now(), programs: make(map[int]time.Duration, len(times))}
	for cpu, t := range times {
		m.busy += t.Programs + t.Interrupts
		m.stolen += t.Stolen
		m.programs[cpu] = t.Programs
	}
	return m, err
}

// programsSince returns the CPU time of programs on some CPUs since an earlier reading. It skips a CPU that one of the readings lacks.
func (m cpuReading) programsSince(before cpuReading, cpus *cpuset.Set) (sum time.Duration) {
	for cpu, now := range m.programs {
		if old, isKnown := before.programs[cpu]; isKnown && cpus.Contains(cpu) {
			sum += max(now-old, 0)
		}
	}
	return sum
}

// A measuredPart describes the CPUs on which the measured program may run. If Candor runs another program beside it on these CPUs, such as
// a stressor, the part includes this program.
type measuredPart struct {
	setup string // name of the setup, for the user
	cpus  cpuset.Set
	used  time.Duration // CPU time of the part's programs
}

// partOf returns the part of a program beside another program of the lab, with the CPU times of both in seconds. If the program has
// all its CPUs exclusively, the part has only this program. Otherwise it has both programs and all usable CPUs.
func (l *Lab) partOf(setup string, g *host.Grant, program, beside float64) measuredPart {
	if !g.CPUs.IsEmpty() && g.CPUs == g.Exclusive {
		return measuredPart{setup, g.CPUs, time.Duration(program * float64(time.Second))}
	}
	return measuredPart{setup, l.usable, time.Duration((program + beside) * float64(time.Second))}
}

// noise returns the noise between two readings, without the CPU time of the workload. It also adds the time of the other programs on the
// CPUs of the measured program to the watch of the lab.
func (l *Lab) noise(before, after cpuReading, workload time.Duration, part measuredPart) Noise {
	span := after.at.Sub(before.at)
	l.foreign.add(part, after.programsSince(before, &part.cpus)-part.used, span)
	return after.noiseSince(before, workload)
}

// A labWatch finds foreign processes that use the CPUs of a lab during its runs.
type labWatch struct {
	*interference.Watch
	setups []setupUse
}

// A setupUse is the use of a setup's CPUs by other programs during the setup's runs on these CPUs.
type setupUse struct {
	setup        string
	cpus         cpuset.Set
	others, span time.Duration // CPU time of other programs, and length of the runs
}

// add adds the use during a run.
func (w *labWatch) add(part measuredPart, others, span time.Duration) {
	at := slices.IndexFunc(w.setups, func(u setupUse) bool { return u.setup == part.setup && u.cpus == part.cpus })
	if at < 0 {
		at = len(w.setups)
		w.setups = append(w.setups, setupUse{setup: part.setup, cpus: part.cpus})
	}
	u := &w.setups[at]
	u.others += others
	u.span += span
}

// share returns the use as a share of the setup's CPUs.
func (u *setupUse) share() float64 {
	return float64(u.others) / (float64(max(u.cpus.Count(), 1)) * float64(max(u.span, 1)))
}

// startWatch starts a watch of the lab's CPUs. If /proc cannot be read, the experiment runs without a watch.
func (l *Lab) startWatch() { l.foreign = labWatch{Watch: interference.Start(l.usable)} }

// interference returns the use by other processes of the setup whose CPUs had the highest such use during the runs since startWatch, or nil
// if this use is low. The lab's own processes must have ended before the call, so that the report contains only other processes.
func (l *Lab) interference() *interference.Report {
	if l.foreign.Watch == nil {
		return nil
	}
	var worst *interference.Report
	highest := 0.0
	for i := range l.foreign.setups {
		u := &l.foreign.setups[i]
		if u.share() <= highest {
			continue
		}
		r := l.foreign.ReportOn(u.cpus, u.setup, u.others, u.span, func(pid int) bool { return l.guard != nil && pid == l.guard.Process.Pid })
		if r != nil {
			worst, highest = r, u.share()
		}
	}
	return worst
}

// noiseSince returns the noise between an earlier reading (before) and the reading m, without the CPU time of the workload.
func (m cpuReading) noiseSince(before cpuReading, workload time.Duration) Noise {
	span := m.at.Sub(before.at).Seconds()
	if span <= 0 {
		return Noise{}
	}
	return Noise{
		Others: max(0, (m.busy-before.busy-workload).Seconds()/span), // /proc counts in ticks of 10 ms
		Stolen: (m.stolen - before.stolen).Seconds() / span,
	}
}
