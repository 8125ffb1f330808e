// Package burst lets a group use, for a short time, CPU time that it has saved up by using
// less than its limit before: while the group is throttled, and its CPUs have time that nobody
// else needs, its quota is raised; when the throttling stops, what was saved is spent, or others
// come, it goes back. On average the limit holds.
//
// The control loop is a pure function, State.Next: what was measured goes in, a new state and
// perhaps a quota to write come out. It has no clock and no files, so it runs on the model of
// package bandwidth as on a kernel. Loop drives it on real groups.
//
// Each write of a quota hands the group a fresh one at once (tg_set_cfs_bandwidth in the kernel's
// sched/core.c). So it is written seldom, and right after a period's edge, where the group has a
// fresh one anyway. What leaks all the same is accounted: the account is of measured use.
package burst

import "time"

// A Setting is what a group may use.
type Setting struct {
	Quota  time.Duration // CPU time per period that its limit is worth
	Period time.Duration
	Most   time.Duration // the highest quota that it is ever given
}

const (
	depth     = 800 * time.Millisecond // how much is saved up: the limit for so long; 1.3 % of a minute
	aim       = 300 * time.Microsecond // how long after an edge a quota is written
	sharp     = 600 * time.Microsecond // how well the edge must be known for that
	calm      = 3                      // periods without throttling after which a raised quota goes down
	patience  = 3                      // how often a write that would be late waits for the next edge
	blind     = 50                     // periods after which a group is raised though its edge is not known
	leakShare = 10                     // a write is late when more than this part of the quota could leak
	stepShare = 10                     // changes smaller than this part of the quota are not worth a write
	saveShare = 2                      // this part of a quota must be saved before it is raised
)

// Measured is what was read of a group.
type Measured struct {
	At        time.Duration // on the clock that drives the kernel's timers
	Used      time.Duration // CPU time since the group was made
	Periods   uint64        // nr_periods
	Throttled uint64        // nr_throttled
	Room      time.Duration // CPU time per period beyond its quota that others leave to it
}

// A State is what the loop knows of one group. The zero State with a Setting is one of which nothing is known.
type State struct {
	Setting
	InForce time.Duration // the quota that the kernel has; 0: the setting's
	Saved   time.Duration // CPU time saved up; below 0: used beyond the limit
	Over    float64       // CPUs that it used beyond its limit in the last period

	edge      edge
	seen      bool          // last is there
	last      Measured      // as of the last look
	step      Measured      // as of the last decision
	throttled time.Duration // when it last was, at a decision
	edged     time.Duration // when an edge was last seen to have passed
	late      int           // decisions in a row that waited for the next edge
	vague     int           // decisions in a row without its edge being known, while it was busy
}

// A Decision is what follows from a look.
type Decision struct {
	Quota time.Duration // to write now; 0: nothing
	Wants bool          // it is throttled, and has saved up what more room would let it use
	Wake  time.Duration // when to look again
}

// Next takes a look at a group. The state is the one before the decision's write: Wrote tells it of that.
func (s State) Next(m Measured) (State, Decision) {
	if !s.seen || m.Used < s.last.Used { // less: it is another group of the same name
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
		if s.busy(m) { // does it still come where it is expected?
			d.Wake = min(d.Wake, s.edge.before(m.At, aim))
		}
	case m.At-s.edged > 2*s.Period: // the timer has stopped: there is nothing to learn
		d.Wake = m.At + s.Period
	default:
		d.Wake = s.edge.probe(m.At)
	}
	return s, d
}

// Wrote tells the state that a quota has been written.
func (s State) Wrote(quota time.Duration) State {
	s.InForce, s.late = quota, 0
	return s
}

// Raised is what the group has beyond its setting's quota, per period.
func (s *State) Raised() time.Duration { return max(s.InForce-s.Quota, 0) }

// begin is the state at the first look: nothing is saved up yet.
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

// account adds what the group could have used since the last look, and takes what it has used.
func (s *State) account(m Measured) {
	earned := s.worth(m.At - s.last.At)
	s.Saved = min(s.Saved+earned-(m.Used-s.last.Used), s.worth(depth))
}

// worth is the CPU time that the limit is worth in a time.
func (s *State) worth(span time.Duration) time.Duration {
	return time.Duration(float64(span) / float64(s.Period) * float64(s.Quota))
}

// busy reports whether a write may come soon.
func (s *State) busy(m Measured) bool {
	return s.Raised() > 0 || m.At-s.throttled < calm*s.Period
}

func (s *State) wants(m Measured) bool {
	return s.busy(m) && (s.Saved >= s.Quota/saveShare || s.Raised() > 0 && s.Saved > 0)
}

// decide is what to write at a period's edge, or where that is not known, at any time.
func (s *State) decide(m Measured, known bool) (d Decision) {
	span, used := m.At-s.step.At, m.Used-s.step.Used
	if span > 0 {
		s.Over = max(float64(used)/float64(span)-float64(s.Quota)/float64(s.Period), 0)
	}
	isThrottled := m.Throttled > s.step.Throttled
	if isThrottled {
		s.throttled = m.At
	}
	switch { // where the machine is too busy to look in time it is never known: what leaks then is paid back
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

// extra is what the group is to have beyond its quota in the period that has begun. What it has saved is the
// most that it may use until the next look.
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
		if s.Over > 0 { // it still needs some
			want = has / 2
		}
		s.throttled = m.At // so long it stays then
	}
	want = min(want, s.Most-s.Quota).Truncate(time.Microsecond)
	if want < s.Quota/stepShare {
		return 0
	}
	return want
}

// isLate reports whether a write now would hand the group too much of a second quota in this period. Lowering a
// quota takes more from it than that gives, if it is lowered by as much.
func (s *State) isLate(now, quota time.Duration, known bool) bool {
	leak := s.Quota
	if known {
		leak = time.Duration(float64(s.edge.since(now)) / float64(s.Period) * float64(s.InForce))
	}
	return leak > s.Quota/leakShare && leak > s.InForce-quota
}
