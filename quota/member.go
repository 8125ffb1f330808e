package quota

import (
	"errors"
	"io/fs"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A member is a group with its control state in a Loop.
type member struct {
	Group
	state         State
	overuse       float64       // State.Overuse at the last reading of the member's pool
	needsHeadroom bool          // NeedsHeadroom of the last action
	needsLease    bool          // NeedsLease of the last action
	canWait       bool          // CanWait of the last action
	bookedTime    time.Duration // Host.BookedTime at the last reading
	wakeTime      time.Duration // time of the next reading
	quotaReadAt   time.Duration // time of the last reading of the quota in the kernel
	leaseEnd      time.Duration // end of the last lease
	lastRefusal   string        // last refusal of the kernel, so that it is logged once
	pausedUntil   time.Duration // no change before this time
	isFrozen      bool          // the processes are frozen
	runsUntil     time.Duration // not frozen before this time
}

// update sets a member from the Host's group. It resets the state if the limit has changed.
func (m *member) update(g Group) {
	if m.state.Quota != g.Quota || m.state.Period != g.Period {
		m.state = State{Setting: g.Setting}
	}
	m.state.Setting, m.canWait = g.Setting, false
	m.Group, m.state.InForce, m.quotaReadAt = g, g.InForce, now()
}

// isPaying reports whether the member needs a lease although it needs no headroom. The reason is debt, or another process that
// could otherwise raise the quota.
func (m *member) isPaying() bool { return m.needsLease && !m.needsHeadroom }

// measure reads a member's use. While the quota can differ from the limit, measure also reads the quota from time to time,
// because other programs can write the quota too, for example systemd.
func (m *member) measure() (u cgroup.Usage, at time.Duration, err error) {
	u, err = m.Kernel.Read()
	at = now()
	if err == nil && at-m.quotaReadAt >= maxQuotaAge && (m.leaseEnd > at || m.state.Overuse > 0) {
		m.state.InForce, err = m.Kernel.Quota()
		m.quotaReadAt = at
	}
	return u, at, err
}

// control reads a member, processes the reading, and executes the action.
func (l *Loop) control(m *member) {
	u, at, err := m.measure()
	if err != nil {
		l.drop(m, err)
		return
	}
	s := Sample{At: at, Used: u.CPU, Periods: u.Periods, Throttled: u.Throttled, IsLeased: m.leaseEnd-leaseMargin >= at && at >= m.pausedUntil}
	s.Charged, s.Credited = l.host.Charges(m.Name)
	s.IsKilled = m.isFrozen && m.Kernel.IsKilled()
	if m.CanRaise() {
		s.Headroom = time.Duration(l.share(m, at) * float64(m.Period))
	}
	m.state.CanFreeze = m.CanFreeze && at >= m.runsUntil
	var a Action
	m.state, a = m.state.Next(s)
	m.needsHeadroom, m.needsLease, m.canWait, m.wakeTime = a.NeedsHeadroom, a.NeedsLease, a.CanWait, a.Wake
	if a.Write && !l.write(m, a.Quota) {
		return
	}
	if a.Frozen != m.isFrozen {
		l.freeze(m, a.Frozen)
	}
	l.host.Observe(m.Name, &m.state)
}

// write writes a member's quota. If the kernel refuses the quota, for example because an ancestor of the group has a lower quota, write
// pauses the changes of the member. It reports whether the member still exists.
func (l *Loop) write(m *member, quota Limit) bool {
	err := m.Kernel.SetQuota(quota)
	switch {
	case err == nil:
		m.state, m.lastRefusal = m.state.AfterWrite(quota), ""
		return true
	case isGone(err):
		l.drop(m, err)
		return false
	}
	m.pausedUntil = now() + refusalPause
	message := "quota not raised: the kernel refuses it; remove the quotas of the groups above, or use burst kernel"
	if quota < m.state.InForce {
		message = "quota not lowered: the kernel refuses it"
	}
	l.warnOnce(m, message, err)
	return true
}

// freeze freezes or thaws a member. If the kernel refuses this, the Loop tries to freeze the member again after refusalPause at
// the earliest.
func (l *Loop) freeze(m *member, frozen bool) {
	err := m.Kernel.Freeze(frozen)
	switch {
	case err == nil:
		m.isFrozen = frozen
		return
	case isGone(err):
		l.drop(m, err)
		return
	}
	m.runsUntil = now() + refusalPause
	l.warnOnce(m, "processes not frozen: the limit does not hold for the helpers of this container", err)
}

// warnOnce logs a refusal, unless it is the member's last refusal.
func (l *Loop) warnOnce(m *member, message string, err error) {
	if m.lastRefusal == err.Error() {
		return
	}
	m.lastRefusal = err.Error()
	l.log.Warn(message, m.LogName, "error", err)
}

// drop releases and removes a member that cannot be read or written. If the group was removed, drop does not log this,
// because the Host reports the removal.
func (l *Loop) drop(m *member, err error) {
	if !isGone(err) {
		l.log.Warn("quota is no longer managed", m.LogName, "error", err)
	}
	l.release(m)
	delete(l.members, m.Name)
}

// release thaws a member, restores the quota, and closes the Kernel. It does not change a quota that another program has
// changed.
func (l *Loop) release(m *member) {
	defer m.Kernel.Close()
	if m.isFrozen {
		if err := m.Kernel.Freeze(false); err != nil && !isGone(err) {
			l.log.Warn("processes not thawed: the next operation thaws them after the lease has ended", m.LogName, "error", err)
		}
	}
	isOther := m.IsCharged && !m.state.hasChanged // another process has changed the quota
	if m.state.InForce == 0 || m.state.InForce == m.state.base() || isOther {
		return
	}
	quota, err := m.Kernel.Quota()
	if err == nil && quota == m.state.InForce {
		err = m.Kernel.SetQuota(m.state.base())
	}
	if err != nil && !isGone(err) {
		l.log.Warn("quota not restored: the next operation restores it after the lease has ended", m.LogName, "error", err)
	}
}

func isGone(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist)
}
