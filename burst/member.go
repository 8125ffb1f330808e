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
	state       State
	overuse     float64 // CPUs used beyond its limit at the last reading of its pool
	needsRoom   bool
	wakeTime    time.Duration
	quotaReadAt time.Duration // time of the last reading of its quota
	loanEnd     time.Duration // end of its loan
	lastRefusal string        // last refusal of the kernel
	pausedUntil time.Duration // no raise before this time
}

// update sets a member from the host's group. The state remains while the limit does not change.
func (m *member) update(g Group) {
	if m.state.Quota != g.Quota || m.state.Period != g.Period {
		m.state = State{Setting: g.Setting}
	}
	m.state.MaxQuota = g.MaxQuota
	m.Group, m.state.InForce, m.quotaReadAt = g, g.InForce, now()
}

// measure reads a member's use, and sometimes its quota. Other programs write the quota too, for example systemd.
func (m *member) measure() (u cgroup.Usage, at time.Duration, err error) {
	u, err = m.Kernel.Read()
	at = now()
	if err == nil && at-m.quotaReadAt >= quotaAge && (m.loanEnd > at || m.state.Overuse > 0) {
		m.state.InForce, err = m.Kernel.Quota()
		m.quotaReadAt = at
	}
	return u, at, err
}

// control does one control step of a member.
func (l *Loop) control(m *member) {
	u, at, err := m.measure()
	if err != nil {
		l.drop(m, err)
		return
	}
	var d Decision
	m.state, d = m.state.Next(Measured{At: at, Used: u.CPU, Periods: u.Periods, Throttled: u.Throttled, Room: l.roomOf(m, at)})
	m.needsRoom, m.wakeTime = d.NeedsRoom, d.Wake
	if d.Quota != 0 {
		l.write(m, d.Quota)
	}
}

// roomOf returns the CPU time per period that a member can have beyond its quota.
func (l *Loop) roomOf(m *member, at time.Duration) time.Duration {
	share := l.share(m, at) // always, because the idle time must be known when the member needs it
	if m.loanEnd-loanMargin < at || at < m.pausedUntil {
		return 0
	}
	return time.Duration(share * float64(m.Period))
}

// write writes a member's quota. If the parent does not allow it, write blocks further raises for a while.
func (l *Loop) write(m *member, quota time.Duration) {
	err := m.Kernel.SetQuota(quota)
	switch {
	case err == nil:
		m.state, m.lastRefusal = m.state.AfterWrite(quota), ""
		return
	case isGone(err):
		l.drop(m, err)
		return
	}
	m.pausedUntil = now() + refusalPause
	if m.lastRefusal == err.Error() { // log the refusal once
		return
	}
	m.lastRefusal = err.Error()
	message := "quota not raised: the kernel refuses it; remove the quotas of the groups above, or use burst kernel"
	if quota < m.state.InForce {
		message = "raised quota not lowered: the kernel refuses it"
	}
	l.log.Warn(message, "container", m.Name, "error", err)
}

// drop removes a member that cannot be read. It does not log the end of a group, because the host reports it.
func (l *Loop) drop(m *member, err error) {
	if !isGone(err) {
		l.log.Warn("quota no longer managed", "container", m.Name, "error", err)
	}
	l.release(m)
	delete(l.members, m.Name)
}

// release releases a member. It restores the quota if the member still has the loop's value.
func (l *Loop) release(m *member) {
	defer m.Kernel.Close()
	if m.state.Extra() == 0 {
		return
	}
	raised, err := m.Kernel.Quota()
	if err == nil && raised == m.state.InForce {
		err = m.Kernel.SetQuota(m.Quota)
	}
	if err != nil && !isGone(err) {
		l.log.Warn("raised quota not restored: the next operation restores it after the loan has ended", "container", m.Name, "error", err)
	}
}

func isGone(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist)
}
