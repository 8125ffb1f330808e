package burst

import (
	"errors"
	"io/fs"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A member is a group of the loop.
type member struct {
	Group
	state State
	over  float64 // CPUs used beyond its limit at the last reading of its pool
	wants bool
	wake  time.Duration
	read  time.Duration // time of the last reading of its quota
	until time.Duration // end of its loan
	why   string        // last refusal of the kernel
	shy   time.Duration // no raise before this time
}

// take updates a member from the host's group. The state remains while the limit does not change.
func (m *member) take(g Group) {
	if m.state.Quota != g.Quota || m.state.Period != g.Period {
		m.state = State{Setting: g.Setting}
	}
	m.state.Most = g.Most
	m.Group, m.state.InForce, m.read = g, g.InForce, now()
}

// measure reads a member's use, and sometimes its quota. Other programs write the quota too, for example systemd.
func (m *member) measure() (u cgroup.Usage, at time.Duration, err error) {
	u, err = m.Kernel.Read()
	at = now()
	if err == nil && at-m.read >= reread && (m.until > at || m.state.Over > 0) {
		m.state.InForce, err = m.Kernel.Quota()
		m.read = at
	}
	return u, at, err
}

// look does one control step of a member.
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

// room returns the CPU time per period that a member can have beyond its quota.
func (l *Loop) room(m *member, at time.Duration) time.Duration {
	share := l.share(m, at) // always, because the idle time must be known when the member needs it
	if m.until-notice < at || at < m.shy {
		return 0
	}
	return time.Duration(share * float64(m.Period))
}

// write writes a member's quota. If the parent does not allow it, write blocks further raises for a while.
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
	if m.why == err.Error() { // log the refusal once
		return
	}
	m.why = err.Error()
	what := "quota not raised: the kernel refuses it; remove the quotas of the groups above, or use burst kernel"
	if quota < m.state.InForce {
		what = "raised quota not lowered: the kernel refuses it"
	}
	l.log.Warn(what, "container", m.Name, "error", err)
}

// drop removes a member that cannot be read. It does not log the end of a group, because the host reports it.
func (l *Loop) drop(m *member, err error) {
	if !isGone(err) {
		l.log.Warn("quota no longer managed", "container", m.Name, "error", err)
	}
	l.letGo(m)
	delete(l.members, m.Name)
}

// letGo releases a member. It restores the quota if the member still has the loop's value.
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
		l.log.Warn("raised quota not restored: the next operation restores it after the loan has ended", "container", m.Name, "error", err)
	}
}

func isGone(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist)
}
