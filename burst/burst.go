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
	Quota  time.Duration // CPU time per period at the limit
	Period time.Duration
	Most   time.Duration // maximum quota
}

const (
	depth     = 800 * time.Millisecond // maximum savings: the limit for this time; 1.3 % of a minute
	aim       = 300 * time.Microsecond // delay of a write after an edge
	sharp     = 600 * time.Microsecond // required precision of the edge for such a write
	calm      = 3                      // periods without throttling before a raised quota is lowered
	patience  = 3                      // number of times a late write waits for the next edge
	blind     = 50                     // periods after which a group is raised without a known edge
	leakShare = 10                     // a write is late when more than quota/leakShare could leak
	stepShare = 10                     // changes below quota/stepShare are not worth a write
	saveShare = 2                      // quota/saveShare must be saved before a raise
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
	Over    float64       // CPUs used beyond the limit in the last period

	edge      edge
	seen      bool          // last is valid
	last      Measured      // at the last reading
	step      Measured      // at the last decision
	throttled time.Duration // time of the last decision at which the group was throttled
	edged     time.Duration // last time at which an edge was known to have passed
	late      int           // consecutive decisions that waited for the next edge
	vague     int           // consecutive decisions of a busy group without a known edge
}

// A Decision is the result of a reading.
type Decision struct {
	Quota time.Duration // quota to write now; 0: none
	Wants bool          // the group is throttled, and has savings to use more room
	Wake  time.Duration // time of the next reading
}

// Next processes a reading of a group. The returned state does not include the decision's write; the caller reports
// it with Wrote.
func (s State) Next(m Measured) (State, Decision) {
	if !s.seen || m.Used < s.last.Used { // a lower counter belongs to a new group of the same name
		s = s.begin(m)
	}
	s.account(m)
	s.edge.see(s.last.At, m.At, m.Periods-s.last.Periods)
	if m.Periods != s.last.Periods {
		s.edged = m.At
	}
	s.last = m
	var d Decision
	known := s.edge.width <= sharp
	if known && s.edge.index(m.At) > s.edge.index(s.step.At) || !known && m.At-s.step.At >= s.Period {
		d = s.decide(m, known)
		s.step = m
	}
	d.Wants = s.wants(m)
	switch {
	case known:
		d.Wake = s.edge.after(m.At, aim)
		if s.busy(m) { // verify that the edge is at the expected time
			d.Wake = min(d.Wake, s.edge.before(m.At, aim))
		}
	case m.At-s.edged > 2*s.Period: // the timer has stopped; a reading has no information
		d.Wake = m.At + s.Period
	default:
		d.Wake = s.edge.probe(m.At)
	}
	return s, d
}

// Wrote records that the quota has been written.
func (s State) Wrote(quota time.Duration) State {
	s.InForce, s.late = quota, 0
	return s
}

// Raised returns the part of the quota in force above the setting's quota, per period.
func (s *State) Raised() time.Duration { return max(s.InForce-s.Quota, 0) }

// begin returns the state at the first reading, with no savings.
func (s State) begin(m Measured) State {
	inForce := s.InForce
	if inForce == 0 {
		inForce = s.Quota
	}
	return State{
		Setting: s.Setting, InForce: inForce, edge: newEdge(s.Period, m.At),
		seen: true, last: m, step: m, throttled: m.At - calm*s.Period, edged: m.At,
	}
}

// account adds the allowed CPU time since the last reading to the savings, and subtracts the used time.
func (s *State) account(m Measured) {
	earned := s.worth(m.At - s.last.At)
	s.Saved = min(s.Saved+earned-(m.Used-s.last.Used), s.worth(depth))
}

// worth returns the CPU time that the limit allows in a time.
func (s *State) worth(span time.Duration) time.Duration {
	return time.Duration(float64(span) / float64(s.Period) * float64(s.Quota))
}

// busy reports whether a write is likely soon.
func (s *State) busy(m Measured) bool {
	return s.Raised() > 0 || m.At-s.throttled < calm*s.Period
}

func (s *State) wants(m Measured) bool {
	return s.busy(m) && (s.Saved >= s.Quota/saveShare || s.Raised() > 0 && s.Saved > 0)
}

// decide chooses the quota at a period edge, or at any time if the edge is unknown.
func (s *State) decide(m Measured, known bool) (d Decision) {
	span, used := m.At-s.step.At, m.Used-s.step.Used
	if span > 0 {
		s.Over = max(float64(used)/float64(span)-float64(s.Quota)/float64(s.Period), 0)
	}
	isThrottled := m.Throttled > s.step.Throttled
	if isThrottled {
		s.throttled = m.At
	}
	switch { // on a machine that is too busy to read in time, the edge stays unknown; the account pays back the leaked time
	case known:
		s.vague = 0
	case used > 0:
		s.vague++
	}
	quota := s.Quota + s.extra(m, isThrottled)
	switch {
	case quota == s.InForce:
		s.late = 0
	case quota > s.InForce && !known && s.vague < blind:
	case used > 0 && s.late < patience && s.isLate(m.At, quota, known):
		s.late++
	default:
		d.Quota = quota
	}
	return d
}

// extra returns the CPU time beyond the quota for the current period. The savings bound the use until the next
// reading.
func (s *State) extra(m Measured, isThrottled bool) time.Duration {
	has := s.Raised()
	free := max(min(m.Room, s.Saved), 0)
	want := has
	switch {
	case isThrottled && s.Saved >= s.Quota/saveShare && free > has+s.Quota/stepShare:
		want = free
	case free < has:
		want = free
	case has > 0 && m.At-s.throttled >= calm*s.Period:
		want = 0
		if s.Over > 0 { // the group still uses it
			want = has / 2
		}
		s.throttled = m.At // keep the raise for calm periods
	}
	want = min(want, s.Most-s.Quota).Truncate(time.Microsecond)
	if want < s.Quota/stepShare {
		return 0
	}
	return want
}

// isLate reports whether a write now would give the group too much of a second quota in this period. A lower quota is
// never late if the reduction exceeds the leak.
func (s *State) isLate(now, quota time.Duration, known bool) bool {
	leak := s.Quota
	if known {
		leak = time.Duration(float64(s.edge.since(now)) / float64(s.Period) * float64(s.InForce))
	}
	return leak > s.Quota/leakShare && leak > s.InForce-quota
}
