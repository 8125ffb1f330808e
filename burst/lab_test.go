package burst

import (
	"time"

	"github.com/candor-project/candor/bandwidth"
)

const ms = time.Millisecond

// A lab is a group of the model of the kernel's bandwidth control, and the loop that looks after it.
type lab struct {
	*bandwidth.Sim
	has    bandwidth.Bandwidth
	state  State
	wake   time.Duration
	room   func(at time.Duration) time.Duration
	delay  func() time.Duration // by which the loop wakes too late
	writes []write
}

// A write is one of the loop's.
type write struct {
	at, quota, saved time.Duration
}

// newLab creates group 0 of a model. The groups in others share its CPUs. The pool of the loop is unlimited.
func newLab(cpus int, most time.Duration, s bandwidth.Setting, others ...bandwidth.Setting) *lab {
	l := &lab{Sim: bandwidth.New(bandwidth.Linux, cpus, append([]bandwidth.Setting{s}, others...)...), has: s.Bandwidth}
	l.state.Setting = Setting{s.Quota, s.Period, most}
	l.room = func(time.Duration) time.Duration { return most }
	l.delay = func() time.Duration { return 0 }
	return l
}

// run lets model and loop run until a time.
func (l *lab) run(until time.Duration) {
	for l.wake <= until {
		l.Run(l.wake)
		stat := l.Stat(0)
		m := Measured{At: l.Now(), Used: stat.Usage, Periods: stat.Periods, Throttled: stat.Throttled, Room: l.room(l.Now())}
		var d Decision
		l.state, d = l.state.Next(m)
		if d.Quota != 0 {
			l.writes = append(l.writes, write{l.Now(), d.Quota, l.state.Saved})
			l.has.Quota = d.Quota
			l.Set(0, l.has)
			l.state = l.state.AfterWrite(d.Quota)
		}
		l.wake = d.Wake + l.delay()
	}
	l.Run(until)
}

// half is half a CPU with the usual period.
func half(burst, phase time.Duration) bandwidth.Setting {
	return bandwidth.Setting{Bandwidth: bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms, Burst: burst}, Phase: phase}
}
