// Package burst raises the quota of a throttled group for a short time.
//
// A group saves up CPU time while it uses less than its limit. While the group is throttled and its CPUs have idle
// time, Loop raises its quota and spends the savings. It restores the quota when the throttling stops, the savings
// are spent, or other groups need the time. The average use stays within the limit.
//
// The control law is a pure function, State.Next. Its input is a measurement; its output is a new state and the quota
// to write, if any. It has no clock and no files, so that it runs on the model of package bandwidth and on a kernel
// alike. Loop runs it on the groups of a Host.
//
// Each write of a quota gives the group a fresh quota at once (tg_set_cfs_bandwidth in kernel/sched/core.c). The loop
// therefore writes seldom, and right after a period edge, where the group has a fresh quota anyway. The savings
// account uses measured use, so that any leaked time counts.
package burst

import "time"

// A Setting is the bandwidth that a group can use.
type Setting struct {
	Quota    time.Duration // CPU time per period at the limit
	Period   time.Duration
	MaxQuota time.Duration // maximum quota
}

const (
	maxSavingsTime       = 800 * time.Millisecond // maximum savings: the limit for this time; 1.3 % of a minute
	edgeDelay            = 300 * time.Microsecond // delay of a write after an edge
	edgePrecision        = 600 * time.Microsecond // required precision of the edge for such a write
	calmPeriods          = 3                      // periods without throttling before a raised quota is lowered
	maxLateWrites        = 3                      // number of times a late write waits for the next edge
	maxEdgelessDecisions = 50                     // periods after which a group is raised without a known edge
	leakDivisor          = 10                     // a write is late when more than quota/leakDivisor could leak
	stepDivisor          = 10                     // changes below quota/stepDivisor are not worth a write
	savingsDivisor       = 2                      // quota/savingsDivisor must be saved before a raise
)

// Measured is a reading of a group.
type Measured struct {
	At        time.Duration // on the clock of the kernel's timers
	Used      time.Duration // CPU time since the creation of the group
	Periods   uint64        // nr_periods
	Throttled uint64        // nr_throttled
	Room      time.Duration // CPU time per period beyond the quota that the CPUs have free
}

// A State is the control state of a group. The zero State with a Setting is the initial state.
type State struct {
	Setting
	InForce time.Duration // quota in the kernel; 0: the setting's quota
	Saved   time.Duration // savings in CPU time; negative: used beyond the limit
	Overuse float64       // CPUs used beyond the limit in the last period

	edge              edge
	hasLast           bool          // last is valid
	last              Measured      // at the last reading
	step              Measured      // at the last decision
	throttledAt       time.Duration // time of the last decision at which the group was throttled
	edgeAt            time.Duration // last time at which an edge was known to have passed
	lateWrites        int           // consecutive decisions that waited for the next edge
	edgelessDecisions int           // consecutive decisions of a busy group without a known edge
}

// A Decision is the result of a reading.
type Decision struct {
	Quota     time.Duration // quota to write now; 0: none
	NeedsRoom bool          // the group is throttled, and has savings to use more room
	Wake      time.Duration // time of the next reading
}

// Next processes a reading of a group. The returned state does not include the decision's write; the caller reports
// it with Wrote.
func (s State) Next(m Measured) (State, Decision) {
	if !s.hasLast || m.Used < s.last.Used { // a lower counter belongs to a new group of the same name
		s = s.start(m)
	}
	s.updateSavings(m)
	s.edge.observe(s.last.At, m.At, m.Periods-s.last.Periods)
	if m.Periods != s.last.Periods {
		s.edgeAt = m.At
	}
	s.last = m
	var d Decision
	isKnown := s.edge.width <= edgePrecision
	if isKnown && s.edge.periodNumber(m.At) > s.edge.periodNumber(s.step.At) || !isKnown && m.At-s.step.At >= s.Period {
		d = s.decide(m, isKnown)
		s.step = m
	}
	d.NeedsRoom = s.needsRoom(m)
	switch {
	case isKnown:
		d.Wake = s.edge.nextAfter(m.At, edgeDelay)
		if s.isBusy(m) { // verify that the edge is at the expected time
			d.Wake = min(d.Wake, s.edge.nextBefore(m.At, edgeDelay))
		}
	case m.At-s.edgeAt > 2*s.Period: // the timer has stopped; a reading has no information
		d.Wake = m.At + s.Period
	default:
		d.Wake = s.edge.probe(m.At)
	}
	return s, d
}

// AfterWrite records that the quota has been written.
func (s State) AfterWrite(quota time.Duration) State {
	s.InForce, s.lateWrites = quota, 0
	return s
}

// Extra returns the part of the quota in force above the setting's quota, per period.
func (s *State) Extra() time.Duration { return max(s.InForce-s.Quota, 0) }

// start returns the state at the first reading, with no savings.
func (s State) start(m Measured) State {
	inForce := s.InForce
	if inForce == 0 {
		inForce = s.Quota
	}
	return State{
		Setting: s.Setting, InForce: inForce, edge: newEdge(s.Period, m.At),
		hasLast: true, last: m, step: m, throttledAt: m.At - calmPeriods*s.Period, edgeAt: m.At,
	}
}

// updateSavings adds the allowed CPU time since the last reading to the savings, and subtracts the used time.
func (s *State) updateSavings(m Measured) {
	earned := s.allowance(m.At - s.last.At)
	s.Saved = min(s.Saved+earned-(m.Used-s.last.Used), s.allowance(maxSavingsTime))
}

// allowance returns the CPU time that the limit allows in a time.
func (s *State) allowance(span time.Duration) time.Duration {
	return time.Duration(float64(span) / float64(s.Period) * float64(s.Quota))
}

// isBusy reports whether a write is likely soon.
func (s *State) isBusy(m Measured) bool {
	return s.Extra() > 0 || m.At-s.throttledAt < calmPeriods*s.Period
}

func (s *State) needsRoom(m Measured) bool {
	return s.isBusy(m) && (s.Saved >= s.Quota/savingsDivisor || s.Extra() > 0 && s.Saved > 0)
}

// decide chooses the quota at a period edge, or at any time if the edge is unknown.
func (s *State) decide(m Measured, isKnown bool) (d Decision) {
	span, used := m.At-s.step.At, m.Used-s.step.Used
	if span > 0 {
		s.Overuse = max(float64(used)/float64(span)-float64(s.Quota)/float64(s.Period), 0)
	}
	isThrottled := m.Throttled > s.step.Throttled
	if isThrottled {
		s.throttledAt = m.At
	}
	switch { // on a machine that is too busy to read in time, the edge stays unknown; the account pays back the leaked time
	case isKnown:
		s.edgelessDecisions = 0
	case used > 0:
		s.edgelessDecisions++
	}
	quota := s.Quota + s.nextExtra(m, isThrottled)
	switch {
	case quota == s.InForce:
		s.lateWrites = 0
	case quota > s.InForce && !isKnown && s.edgelessDecisions < maxEdgelessDecisions:
	case used > 0 && s.lateWrites < maxLateWrites && s.isLate(m.At, quota, isKnown):
		s.lateWrites++
	default:
		d.Quota = quota
	}
	return d
}

// nextExtra returns the CPU time beyond the quota for the current period. The savings bound the use until the next
// reading.
func (s *State) nextExtra(m Measured, isThrottled bool) time.Duration {
	raised := s.Extra()
	free := max(min(m.Room, s.Saved), 0)
	extra := raised
	switch {
	case isThrottled && s.Saved >= s.Quota/savingsDivisor && free > raised+s.Quota/stepDivisor:
		extra = free
	case free < raised:
		extra = free
	case raised > 0 && m.At-s.throttledAt >= calmPeriods*s.Period:
		extra = 0
		if s.Overuse > 0 { // the group still uses it
			extra = raised / 2
		}
		s.throttledAt = m.At // keep the raise for calm periods
	}
	extra = min(extra, s.MaxQuota-s.Quota).Truncate(time.Microsecond)
	if extra < s.Quota/stepDivisor {
		return 0
	}
	return extra
}

// isLate reports whether a write now would give the group too much of a second quota in this period. A lower quota is
// never late if the reduction exceeds the leak.
func (s *State) isLate(now, quota time.Duration, isKnown bool) bool {
	leak := s.Quota
	if isKnown {
		leak = time.Duration(float64(s.edge.sinceLast(now)) / float64(s.Period) * float64(s.InForce))
	}
	return leak > s.Quota/leakDivisor && leak > s.InForce-quota
}
