// Package burst raises the quota of a throttled group for a short time.
//
// A group is a cgroup with a limit, which is the group's quota per period in its Setting. A group earns savings, in CPU
// time, while it uses less than its limit, and spends savings while it uses more. When the kernel throttles a group that
// has savings, and the group's CPUs have idle time, a Loop raises the quota in the kernel above the limit. The Loop
// restores the quota when the throttling stops, the savings are spent, or other groups need the idle time. So the
// average use of the group does not exceed the limit.
//
// The function State.Next makes the decisions. Its input is a reading of the group's counters. Its output is a new
// state, and the quota to write if the quota should change. State.Next uses no clock and no files, so that it can run on
// the model of package bandwidth and on a kernel. A Loop calls it for the groups of a Host.
//
// A period edge is the moment at which the kernel refills the quota of a group. Each write of a quota also refills the
// quota at once (tg_set_cfs_bandwidth in kernel/sched/core.c). So in the period of a write, a group can use more CPU time
// than its quota: the excess leaks. Therefore a Loop writes seldom, and shortly after a period edge, when the group has
// used little of its quota. The savings are computed from the measured CPU time, so the group pays for leaked CPU time.
package burst

import "time"

// A Setting holds the limit of a group and the maximum of its raised quota.
type Setting struct {
	Quota    time.Duration // CPU time per period at the limit
	Period   time.Duration
	MaxQuota time.Duration // maximum raised quota
}

const (
	maxSavingsTime       = 800 * time.Millisecond // maximum savings, as the time in which the limit allows this CPU time
	edgeDelay            = 300 * time.Microsecond // time between a period edge and the reading and write that follow the edge
	edgePrecision        = 600 * time.Microsecond // width of an edge's window up to which the edge counts as known
	calmPeriods          = 3                      // periods without throttling before a raised quota is lowered
	maxLateWrites        = 3                      // number of edges for which a late write waits
	maxEdgelessDecisions = 50                     // number of decisions after which a quota is raised without a known edge
	leakDivisor          = 10                     // a write is late if more than quota/leakDivisor could leak
	stepDivisor          = 10                     // changes of less than quota/stepDivisor are not worth a write
	savingsDivisor       = 2                      // savings of quota/savingsDivisor are necessary for a raise
)

// Measured is a reading of a group's counters and of its room. The room of a group is the CPU time per period that the
// group can use beyond its limit, because its CPUs would be idle otherwise.
type Measured struct {
	At        time.Duration // time of the reading, on the clock of the kernel's timers
	Used      time.Duration // CPU time since the creation of the group
	Periods   uint64        // nr_periods in cpu.stat
	Throttled uint64        // nr_throttled in cpu.stat
	Room      time.Duration
}

// A State is the control state of a group. The zero State with a Setting is the initial state.
type State struct {
	Setting
	InForce time.Duration // quota in the kernel; 0: the setting's quota
	Saved   time.Duration // savings in CPU time; negative: the group has used more than the limit allows
	Overuse float64       // use beyond the limit between the last two decisions, in CPUs

	edge              edge
	hasLast           bool          // last is valid
	last              Measured      // last reading
	step              Measured      // reading at the last decision
	throttledAt       time.Duration // last decision that found the group throttled; also set when a raise is reduced
	edgeAt            time.Duration // last reading that found a new period
	lateWrites        int           // consecutive decisions that postponed a write to the next edge
	edgelessDecisions int           // consecutive decisions without a known edge in which the group used CPU time
}

// A Decision is the result of a reading.
type Decision struct {
	Quota     time.Duration // quota to write now; 0: do not write
	NeedsRoom bool          // the group was throttled lately or is raised, and has savings to use room
	Wake      time.Duration // time of the next reading
}

// Next processes a reading of a group. The returned state does not include the write of Decision.Quota. After this
// write, the caller calls AfterWrite.
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
		if s.isBusy(m) { // also read shortly before the expected edge, to verify the edge
			d.Wake = min(d.Wake, s.edge.nextBefore(m.At, edgeDelay))
		}
	case m.At-s.edgeAt > 2*s.Period: // the kernel's period timer has stopped, so a reading cannot locate the edge
		d.Wake = m.At + s.Period
	default:
		d.Wake = s.edge.probe(m.At)
	}
	return s, d
}

// AfterWrite returns the state after the caller has written a quota.
func (s State) AfterWrite(quota time.Duration) State {
	s.InForce, s.lateWrites = quota, 0
	return s
}

// Extra returns the CPU time per period by which the quota in the kernel exceeds the setting's quota.
func (s *State) Extra() time.Duration { return max(s.InForce-s.Quota, 0) }

// start returns the state at the first reading m, without savings.
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

// updateSavings updates the savings for the time since the last reading: it adds the CPU time that the limit allows, and
// subtracts the used CPU time.
func (s *State) updateSavings(m Measured) {
	earned := s.allowance(m.At - s.last.At)
	s.Saved = min(s.Saved+earned-(m.Used-s.last.Used), s.allowance(maxSavingsTime))
}

// allowance returns the CPU time that the limit allows in a time span.
func (s *State) allowance(span time.Duration) time.Duration {
	return time.Duration(float64(span) / float64(s.Period) * float64(s.Quota))
}

// isBusy reports whether the quota is raised or the group was throttled lately, so that a write is likely soon.
func (s *State) isBusy(m Measured) bool {
	return s.Extra() > 0 || m.At-s.throttledAt < calmPeriods*s.Period
}

func (s *State) needsRoom(m Measured) bool {
	return s.isBusy(m) && (s.Saved >= s.Quota/savingsDivisor || s.Extra() > 0 && s.Saved > 0)
}

// decide chooses the quota to write. It is called after each known period edge, or once per period if the edge is not
// known. isKnown reports whether the edge is known.
func (s *State) decide(m Measured, isKnown bool) (d Decision) {
	span, used := m.At-s.step.At, m.Used-s.step.Used
	if span > 0 {
		s.Overuse = max(float64(used)/float64(span)-float64(s.Quota)/float64(s.Period), 0)
	}
	isThrottled := m.Throttled > s.step.Throttled
	if isThrottled {
		s.throttledAt = m.At
	}
	// On a machine that is too busy for readings in time, the edge stays unknown. Then the quota is raised without a
	// known edge after a while, and the savings pay for the leaked CPU time.
	switch {
	case isKnown:
		s.edgelessDecisions = 0
	case used > 0:
		s.edgelessDecisions++
	}
	quota := s.Quota + s.chooseExtra(m, isThrottled)
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

// chooseExtra returns the new value for Extra. It is at most the room and the savings, so that the group cannot use more
// than its savings until the next decision.
func (s *State) chooseExtra(m Measured, isThrottled bool) time.Duration {
	current := s.Extra()
	available := max(min(m.Room, s.Saved), 0)
	extra := current
	switch {
	case isThrottled && s.Saved >= s.Quota/savingsDivisor && available > current+s.Quota/stepDivisor:
		extra = available
	case available < current:
		extra = available
	case current > 0 && m.At-s.throttledAt >= calmPeriods*s.Period:
		extra = 0
		if s.Overuse > 0 { // the group still uses a part of the extra time
			extra = current / 2
		}
		s.throttledAt = m.At // do not reduce the raise again for calmPeriods
	}
	extra = min(extra, s.MaxQuota-s.Quota).Truncate(time.Microsecond)
	if extra < s.Quota/stepDivisor {
		return 0
	}
	return extra
}

// isLate reports whether it is too late after the period edge to write the quota now, because too much CPU time could
// leak. A write that lowers the quota is not late if it lowers the quota by more than the leak.
func (s *State) isLate(now, quota time.Duration, isKnown bool) bool {
	leak := s.Quota
	if isKnown {
		leak = time.Duration(float64(s.edge.sinceLast(now)) / float64(s.Period) * float64(s.InForce))
	}
	return leak > s.Quota/leakDivisor && leak > s.InForce-quota
}
