// Package burst decides when a throttled group gets a higher quota for a short time.
//
// A group is a cgroup with a limit; a Setting holds the limit as a quota per period. The group saves CPU time while it
// uses less than its limit. When the kernel throttles a group with savings, and the group's CPUs have idle time, a Raise
// adds an extra quota to the limit. The Raise removes the extra quota when the throttling stops, when the savings are spent, or
// when other groups need the idle time (see Shares). So the average use of the group does not exceed the limit.
//
// The package is pure: it uses no clock and no files. Package quota computes the savings and writes the quotas.
package burst

import "time"

// A Setting holds the limit of a group and the maximum of its raised quota.
type Setting struct {
	Quota    time.Duration // CPU time per period at the limit
	Period   time.Duration
	MaxQuota time.Duration // maximum raised quota; if it is not above Quota, the quota is never raised
}

// CanRaise reports whether the quota can be raised.
func (s *Setting) CanRaise() bool { return s.MaxQuota > s.Quota }

// Allowance returns the CPU time that the limit allows in a time span.
func (s *Setting) Allowance(span time.Duration) time.Duration {
	return time.Duration(float64(span) / float64(s.Period) * float64(s.Quota))
}

const (
	// MaxSavingsTime limits the savings: a group saves at most the CPU time that its limit allows in this time.
	MaxSavingsTime = 800 * time.Millisecond

	calmPeriods    = 3  // periods without throttling before a raised quota is lowered
	stepDivisor    = 10 // quota/stepDivisor is the smallest extra quota, and the smallest increase of it
	savingsDivisor = 2  // the extra quota rises only with savings of at least quota/savingsDivisor
)

// A Reading describes a group at the end of a period. The headroom of a group is the CPU time per period that the group can
// use beyond its limit, because its CPUs would be idle otherwise.
type Reading struct {
	At          time.Duration // time of the reading
	Saved       time.Duration // savings in CPU time; negative: the group has used more than the limit allows
	Headroom    time.Duration
	Extra       time.Duration // quota in the kernel minus Setting.Quota, at least 0
	Overuse     float64       // use beyond the limit in the period, in CPUs
	IsThrottled bool          // the kernel throttled the group in the period
}

// A Raise decides on the extra quota of a group. It holds the time of the last throttling.
type Raise struct {
	throttledAt time.Duration // time of the last reading with throttling, or of the last reduction after calmPeriods without throttling
}

// NewRaise returns the Raise of a group that has not been throttled yet.
func NewRaise(s Setting, at time.Duration) Raise { return Raise{at - calmPeriods*s.Period} }

// Next returns the new Raise, and the extra quota for the next period. The extra quota exceeds neither the headroom nor
// the savings, so that the group cannot use more than its savings until the next reading.
func (r Raise) Next(s Setting, m Reading) (Raise, time.Duration) {
	if m.IsThrottled {
		r.throttledAt = m.At
	}
	available := max(min(m.Headroom, m.Saved), 0)
	extra := m.Extra
	switch {
	case m.IsThrottled && m.Saved >= s.Quota/savingsDivisor && available > m.Extra+s.Quota/stepDivisor:
		extra = available
	case available < m.Extra:
		extra = available
	case m.Extra > 0 && !r.IsRecent(s, m.At):
		extra = 0
		if m.Overuse > 0 { // the group still uses a part of the extra time
			extra = m.Extra / 2
		}
		r.throttledAt = m.At // do not reduce the extra quota again for calmPeriods
	}
	extra = min(extra, s.MaxQuota-s.Quota).Truncate(time.Microsecond)
	if extra < s.Quota/stepDivisor {
		extra = 0
	}
	return r, extra
}

// IsRecent reports whether the last throttling, or the last reduction without throttling, is less than calmPeriods ago.
func (r Raise) IsRecent(s Setting, at time.Duration) bool {
	return at-r.throttledAt < calmPeriods*s.Period
}

// NeedsHeadroom reports whether a group can use headroom: it has an extra quota or was throttled lately, and has enough savings.
func (r Raise) NeedsHeadroom(s Setting, m Reading) bool {
	isBusy := m.Extra > 0 || r.IsRecent(s, m.At)
	return s.CanRaise() && isBusy && (m.Saved >= s.Quota/savingsDivisor || m.Extra > 0 && m.Saved > 0)
}
