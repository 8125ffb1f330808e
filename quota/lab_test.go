package quota

import (
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
)

const ms = time.Millisecond

// A lab runs the loop's state machine on group 0 of a model of the kernel's bandwidth control.
type lab struct {
	*bandwidth.Sim
	has    bandwidth.Bandwidth
	state  State
	wake   time.Duration
	room   func(at time.Duration) time.Duration // headroom
	delay  func() time.Duration                 // delay of a wakeup of the loop
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
	l.state.Setting = Setting{Setting: burst.Setting{Quota: s.Quota, Period: s.Period, MaxQuota: maxQuota}}
	l.room = func(time.Duration) time.Duration { return maxQuota }
	l.delay = func() time.Duration { return 0 }
	return l
}

// run runs the model and the loop until a time.
func (l *lab) run(until time.Duration) {
	for l.wake <= until {
		l.Run(l.wake)
		l.control(0, 0)
	}
	l.Run(until)
}

// control reads the group, and executes the action of the state machine.
func (l *lab) control(charged, credited time.Duration) Action {
	stat := l.Stat(0)
	m := Sample{
		At: l.Now(), Used: stat.Usage, Charged: charged, Credited: credited, Periods: stat.Periods, Throttled: stat.Throttled,
		Headroom: l.room(l.Now()), IsLeased: true,
	}
	var a Action
	l.state, a = l.state.Next(m)
	if a.Write {
		l.writes = append(l.writes, write{l.Now(), time.Duration(a.Quota), l.state.Saved})
		l.has.Quota = time.Duration(a.Quota)
		if a.Quota == Unlimited {
			l.has.Quota = 0
		}
		l.Set(0, l.has)
		l.state = l.state.AfterWrite(a.Quota)
	}
	l.wake = a.Wake + l.delay()
	return a
}

// half returns a limit of half a CPU with the default period.
func half(burst, phase time.Duration) bandwidth.Setting {
	return bandwidth.Setting{Bandwidth: bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms, Burst: burst}, Phase: phase}
}
