package burst

import (
	"errors"
	"io/fs"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A member is one group of the loop.
type member struct {
	Group
	state State
	over  float64 // CPUs that it used beyond its limit at the last look at its pool
	wants bool
	wake  time.Duration
	read  time.Duration // when its quota was read
	until time.Duration // it may have more than its quota until then
	why   string        // the last refusal of the kernel
	shy   time.Duration // it is not raised until then
}

// take takes what the host says of a group. What is known of it stays while its limit does.
func (m *member) take(g Group) {
	if m.state.Quota != g.Quota || m.state.Period != g.Period {
		m.state = State{Setting: g.Setting}
	}
	m.state.Most = g.Most
	m.Group, m.state.InForce, m.read = g, g.InForce, now()
}

// measure reads a member's use and, now and then, its quota: others write it too, systemd without a word.
func (m *member) measure() (u cgroup.Usage, at time.Duration, err error) {
	u, err = m.Kernel.Read()
	at = now()
	if err == nil && at-m.read >= reread && (m.until > at || m.state.Over > 0) {
		m.state.InForce, err = m.Kernel.Quota()
		m.read = at
	}
	return u, at, err
}

// look is one step of one member.
func (l *Loop) look(m *member) {
	u, at, err := m.measure()
	if err != nil {
		l.drop(m, err)
		return
	}
	var d Decision
	m.state, d = m.state.Next(Measured{At: at, Used: u.CPU, Periods: u.Periods, Throttled: u.Throttled, Room: l.room(m, at)})
	m.wants, m.wake = d.Wants, d.Wake
	if d.Quota != 0 {
		l.write(m, d.Quota)
	}
}

// room is the CPU time per period that a member may have beyond its quota.
func (l *Loop) room(m *member, at time.Duration) time.Duration {
	share := l.share(m, at) // always: what was idle has to be known when it is wanted
	if m.until-notice < at || at < m.shy {
		return 0
	}
	return time.Duration(share * float64(m.Period))
}

// write gives a member a quota. A group whose parent allows no more is left at its own for a while.
func (l *Loop) write(m *member, quota time.Duration) {
	err := m.Kernel.SetQuota(quota)
	switch {
	case err == nil:
		m.state, m.why = m.state.Wrote(quota), ""
		return
	case isGone(err):
		l.drop(m, err)
		return
	}
	m.shy = now() + shyness
	if m.why == err.Error() { // once, not each time
		return
	}
	m.why = err.Error()
	what := "quota not raised: the kernel refuses it: want the groups above without a quota, or burst kernel"
	if quota < m.state.InForce {
		what = "raised quota not lowered: the kernel refuses it"
	}
	l.log.Warn(what, "container", m.Name, "error", err)
}

// drop takes a member off the list that cannot be read. That its group is gone is no news: its end is others' to tell.
func (l *Loop) drop(m *member, err error) {
	if !isGone(err) {
		l.log.Warn("quota not looked after any more", "container", m.Name, "error", err)
	}
	l.letGo(m)
	delete(l.members, m.Name)
}

// letGo gives a member that is looked after no more its quota back, where it still has the one that the loop gave it.
func (l *Loop) letGo(m *member) {
	defer m.Kernel.Close()
	if m.state.Raised() == 0 {
		return
	}
	has, err := m.Kernel.Quota()
	if err == nil && has == m.state.InForce {
		err = m.Kernel.SetQuota(m.Quota)
	}
	if err != nil && !isGone(err) {
		l.log.Warn("raised quota not put back: the next operation does it when the loan has ended", "container", m.Name, "error", err)
	}
}

func isGone(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist)
}
