package burst

import (
	"time"

	"github.com/candor-project/candor/bandwidth"
)

const ms = time.Millisecond

// A lab runs the loop's state machine on group 0 of a model of the kernel's bandwidth control.
type lab struct {
	*bandwidth.Sim
	has    bandwidth.Bandwidth
	state  State
	wake   time.Duration
	room   func(at time.Duration) time.Duration
	delay  func() time.Duration // delay of a wakeup of the loop
	writes []write
}

// A write is a quota that the loop has written.
type write struct {
	at, quota, saved time.Duration
}

// newLab returns a lab whose group 0 has the setting s. The groups in others share its CPUs. The pool does
// not limit the loop.
func newLab(cpus int, maxQuota time.Duration, s bandwidth.Setting, others ...bandwidth.Setting) *lab {
	l := &lab{Sim: bandwidth.New(bandwidth.Linux, cpus, append([]bandwidth.Setting{s}, others...)...), has: s.Bandwidth}
	l.state.Setting = Setting{s.Quota, s.Period, maxQuota}
	l.room = func(time.Duration) time.Duration { return maxQuota }
	l.delay = func() time.Duration { return 0 }
	return l
}

// run runs the model and the loop until a time.
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

// half returns a limit of half a CPU with the default period.
func half(burst, phase time.Duration) bandwidth.Setting {
	return bandwidth.Setting{Bandwidth: bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms, Burst: burst}, Phase: phase}
}
