package experiment

import (
	"time"

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
	programs     time.Duration // CPU time of programs, without interrupts, on the lab's CPUs
}

func (l *Lab) readCPUTimes() (cpuReading, error) {
	times, err := procfs.ReadCPUTimes()
	m := cpuReading{at: time.Now()}
	for cpu, t := range times {
		m.busy += t.Programs + t.Interrupts
		m.stolen += t.Stolen
		if l.usable.Contains(cpu) {
			m.programs += t.Programs
		}
	}
	return m, err
}

// noise returns the noise between two readings, without the CPU time of the workload. It also adds the time of the other programs to the
// watch of the lab.
func (l *Lab) noise(before, after cpuReading, workload time.Duration) Noise {
	l.foreign.others += after.programs - before.programs - workload
	l.foreign.span += after.at.Sub(before.at)
	return after.noiseSince(before, workload)
}

// A labWatch finds foreign processes that use the CPUs of a lab during its runs.
type labWatch struct {
	*interference.Watch
	others, span time.Duration // CPU time of other programs during the runs, and length of the runs
}

// startWatch starts a watch of the lab's CPUs. If /proc cannot be read, the experiment runs without a watch.
func (l *Lab) startWatch() { l.foreign = labWatch{Watch: interference.Start(l.usable)} }

// interference returns the use of the lab's CPUs by other processes during the runs since startWatch, or nil if this use is low.
// The lab's own processes must have ended before the call, so that the report contains only other processes.
func (l *Lab) interference() *interference.Report {
	if l.foreign.Watch == nil {
		return nil
	}
	return l.foreign.Report(max(l.foreign.others, 0), l.foreign.span, func(pid int) bool { return l.guard != nil && pid == l.guard.Process.Pid })
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
