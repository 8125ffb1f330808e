package burst

import (
	"errors"
	"io/fs"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A member is a group with its control state in a Loop.
type member struct {
	Group
	state       State
	overuse     float64       // State.Overuse at the last reading of the member's pool
	needsRoom   bool          // NeedsRoom of the last decision
	wakeTime    time.Duration // time of the next reading
	quotaReadAt time.Duration // time of the last reading of the quota in the kernel
	loanEnd     time.Duration // end of the last loan
	lastRefusal string        // last refusal of the kernel, so that it is logged once
	pausedUntil time.Duration // no raise before this time
}

// update sets a member from the Host's group. It resets the state if the limit has changed.
func (m *member) update(g Group) {
	if m.state.Quota != g.Quota || m.state.Period != g.Period {
		m.state = State{Setting: g.Setting}
	}
	m.state.MaxQuota = g.MaxQuota
	m.Group, m.state.InForce, m.quotaReadAt = g, g.InForce, now()
}

// measure reads a member's use. While the quota can be raised, measure also reads the quota from time to time, because
// other programs can write the quota too, for example systemd.
func (m *member) measure() (u cgroup.Usage, at time.Duration, err error) {
	u, err = m.Kernel.Read()
	at = now()
	if err == nil && at-m.quotaReadAt >= maxQuotaAge && (m.loanEnd > at || m.state.Overuse > 0) {
		m.state.InForce, err = m.Kernel.Quota()
		m.quotaReadAt = at
	}
	return u, at, err
}

// control reads a member, processes the reading, and writes the quota if the decision requires it.
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

// roomOf returns a member's room (see Measured). It returns 0 if the member has no loan or its raises are paused.
func (l *Loop) roomOf(m *member, at time.Duration) time.Duration {
	share := l.share(m, at) // call it in any case, so that the pool has a recent reading when the member needs room
	if m.loanEnd-loanMargin < at || at < m.pausedUntil {
		return 0
	}
	return time.Duration(share * float64(m.Period))
}

// write writes a member's quota. If the kernel refuses the quota, for example because a group above has a lower quota,
// write pauses the raises of the member.
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

// drop releases and removes a member that cannot be read or written. If the group was removed, drop does not log this,
// because the Host reports the removal.
func (l *Loop) drop(m *member, err error) {
	if !isGone(err) {
		l.log.Warn("quota is no longer managed", "container", m.Name, "error", err)
	}
	l.release(m)
	delete(l.members, m.Name)
}

// release closes a member's Kernel. It first restores a raised quota, unless another program has changed the quota.
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
