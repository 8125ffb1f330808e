package quota

import (
	"math"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/ledger"
)

// A Limit is a quota in the kernel: CPU time per period, or Unlimited.
type Limit time.Duration

// Unlimited is the absence of a quota. It is greater than all quotas.
const Unlimited Limit = math.MaxInt64

// A Setting holds the limit of a group, and the allowed deviations from it.
type Setting struct {
	burst.Setting
	IsUnlimited bool // the group has no quota in the kernel while it has no debt, because its number of CPUs equals the limit
	IsCharged   bool // the CPU time of helpers counts against the limit, so the quota can be lowered
	CanFreeze   bool // the processes can be frozen if even the kernel's lowest quota is too high
}

// base returns the quota of a group without savings and debt.
func (s *Setting) base() Limit {
	if s.IsUnlimited {
		return Unlimited
	}
	return Limit(s.Quota)
}

const (
	edgeDelay            = 300 * time.Microsecond // time between a period edge and the reading and write that follow the edge
	edgePrecision        = 600 * time.Microsecond // width of an edge's window up to which the edge counts as known
	maxLateWrites        = 3                      // number of times that a late write is postponed to the next edge
	maxEdgelessDecisions = 50                     // number of decisions after which a quota is raised above the limit without a known edge
	maxEdgelessLow       = 5                      // the same for a quota below the limit
	leakDivisor          = 10                     // a write is late if more than quota/leakDivisor could leak
	lowerDivisor         = 50                     // minimum change of a lowered quota that is written: quota/lowerDivisor
	minLowering          = 500 * time.Microsecond // the same bound as CPU time, because each write causes a leak
	maxDebtTime          = 10 * time.Second       // maximum debt, as the time in which the limit allows this CPU time

	tick         = 100 * time.Millisecond // a calm group (see calmWake) is read at multiples of this time
	slowTick     = 500 * time.Millisecond // the same for a calm group with savings of a quota or more
	quietTick    = time.Second            // the same for a calm group that is also quiet (see isQuiet)
	quietDivisor = 10                     // a quiet group has charges of less than quota/quietDivisor per period
	maxQuietAge  = 5 * time.Second        // maximum age of a quiet group's reading
)

// A Sample is a reading of a group's counters and of its headroom (see burst.Reading). A counter starts at the creation of the group or of
// the measurement, so only differences between two Samples have a meaning.
type Sample struct {
	At        time.Duration // time of the reading, on the clock of the kernel's timers
	Used      time.Duration // CPU time of the group
	Charged   time.Duration // CPU time of helpers for the group
	Credited  time.Duration // CPU time that the group paid for other groups
	Periods   uint64        // nr_periods in cpu.stat
	Throttled uint64        // nr_throttled in cpu.stat
	Headroom  time.Duration
	IsLeased  bool // a lease lasts, so that no operation restores the quota
	IsKilled  bool // a frozen process has a pending SIGKILL, and ends when it is thawed
}

// A State is the control state of a group. The zero State with a Setting is the initial state.
type State struct {
	Setting
	InForce Limit         // quota in the kernel; 0: the setting's quota
	Saved   time.Duration // account: earned - used - charged + credited CPU time; negative: debt
	Overuse float64       // use beyond the limit between the last two decisions, in CPUs
	Frozen  bool

	raise burst.Raise
	trend ledger.Trend
	throttle

	edge              edge
	hasLast           bool          // last is valid
	startedAt         time.Duration // time of the first reading
	last              Sample        // last reading
	step              Sample        // reading at the last decision
	edgeAt            time.Duration // time of the last reading that found a new period
	hasChanged        bool          // the last quota that the caller has written differs from base
	lateWrites        int           // consecutive decisions that postponed a write to the next edge
	edgelessDecisions int           // consecutive decisions without a known edge in which the group used CPU time
}

// An Action is the result of a reading.
type Action struct {
	Write         bool // write Quota now
	Quota         Limit
	Frozen        bool          // true: the processes must be frozen now; false: they must run
	NeedsHeadroom bool          // the group was throttled lately or is raised, and has savings to use headroom
	NeedsLease    bool          // the quota will differ from the limit, or differs
	CanWait       bool          // the group has savings and few charges: its next reading can wait
	Wake          time.Duration // time of the next reading
}

// Next processes a reading of a group. The returned state does not include the write of Action.Quota. After this write, the
// caller calls AfterWrite.
func (s State) Next(m Sample) (State, Action) {
	if !s.hasLast || m.Used < s.last.Used { // a lower counter belongs to a new group of the same name
		s = s.start(m)
	}
	s.updateAccount(m)
	s.edge.observe(s.last.At, m.At, m.Periods-s.last.Periods)
	if m.Periods != s.last.Periods {
		s.edgeAt = m.At
	}
	s.last = m
	var a Action
	isKnown := s.edge.width <= edgePrecision
	if isKnown && s.edge.periodNumber(m.At) > s.edge.periodNumber(s.step.At) || !isKnown && m.At-s.step.At >= s.Period {
		a = s.decide(m, isKnown)
		s.step = m
	}
	s.updateFrozen(m)
	a.Frozen = s.Frozen
	a.NeedsHeadroom = s.raise.NeedsHeadroom(s.Setting.Setting, s.reading(m))
	// Another process could raise the quota of a charged container that requests raises. A permanent lease prevents this, because a process
	// leaves out the containers that another process has leased.
	a.NeedsLease = a.NeedsHeadroom || s.isPaying() || s.IsCharged && s.CanRaise()
	a.Wake = s.wake(m, isKnown)
	// A new group does not wait, because its helpers are found in the first seconds.
	a.CanWait = s.IsCharged && !a.NeedsLease && s.isQuiet() && m.At-s.startedAt >= maxQuietAge
	return s, a
}

// AfterWrite returns the state after the caller has written a quota.
func (s State) AfterWrite(quota Limit) State {
	s.InForce, s.hasChanged, s.lateWrites = quota, quota != s.base(), 0
	return s
}

// Extra returns the CPU time per period by which the quota in the kernel exceeds the setting's quota.
func (s *State) Extra() time.Duration {
	if s.InForce == Unlimited {
		return 0
	}
	return max(time.Duration(s.InForce)-s.Quota, 0)
}

// start returns the state at the first reading m, without savings.
func (s State) start(m Sample) State {
	inForce := s.InForce
	if inForce == 0 {
		inForce = s.base()
	}
	return State{
		Setting: s.Setting, InForce: inForce, edge: newEdge(s.Period, m.At), raise: burst.NewRaise(s.Setting.Setting, m.At),
		hasLast: true, startedAt: m.At, last: m, step: m, edgeAt: m.At,
	}
}

// updateAccount updates the account for the time since the last reading.
func (s *State) updateAccount(m Sample) {
	span, used := m.At-s.last.At, m.Used-s.last.Used
	charged, credited := max(m.Charged-s.last.Charged, 0), max(m.Credited-s.last.Credited, 0)
	most := s.Quota // without raises, the group saves at most one quota, which only pays for late charges
	if s.CanRaise() {
		most = s.Allowance(burst.MaxSavingsTime)
	}
	saved := s.Saved + s.Allowance(span) - used - charged + credited
	s.Saved = min(max(saved, -s.Allowance(maxDebtTime)), most)
	if s.IsCharged {
		s.trend.Add(used, charged-credited, span)
	}
}

// reading returns the input for package burst.
func (s *State) reading(m Sample) burst.Reading {
	r := burst.Reading{At: m.At, Saved: s.Saved, Headroom: m.Headroom, Extra: s.Extra(), Overuse: s.Overuse, IsThrottled: m.Throttled > s.step.Throttled}
	if !m.IsLeased {
		r.Headroom = 0
	}
	return r
}

// decide chooses the quota to write. It is called after each known period edge, or once per period if the edge is not
// known. isKnown reports whether the edge is known.
func (s *State) decide(m Sample, isKnown bool) (a Action) {
	span, used := m.At-s.step.At, m.Used-s.step.Used
	if span > 0 {
		s.Overuse = max(float64(used)/float64(span)-float64(s.Quota)/float64(s.Period), 0)
	}
	// On a machine that is too busy for readings in time, the edge stays unknown. Then the quota is raised without a
	// known edge after a while, and the savings pay for the leaked CPU time.
	switch {
	case isKnown:
		s.edgelessDecisions = 0
	case used > 0:
		s.edgelessDecisions++
	}
	quota := s.choose(m)
	switch {
	case quota == s.InForce:
		s.lateWrites = 0
	case s.IsCharged && !m.IsLeased && !s.hasChanged: // another process has changed the quota
	case quota > s.InForce && !isKnown && used > 0 && s.edgelessDecisions < s.maxEdgeless():
	case used > 0 && s.lateWrites < maxLateWrites && s.isLate(m.At, quota, isKnown):
		s.lateWrites++
	default:
		a.Write, a.Quota = true, quota
	}
	return a
}

// maxEdgeless returns the number of decisions after which the quota is raised without a known edge.
func (s *State) maxEdgeless() int {
	if s.InForce < s.base() {
		return maxEdgelessLow
	}
	return maxEdgelessDecisions
}

// choose returns the quota for the next period: below the limit for a group in debt, above the limit for a raise.
func (s *State) choose(m Sample) Limit {
	quota := s.base()
	if s.CanRaise() {
		raise, extra := s.raise.Next(s.Setting.Setting, s.reading(m))
		s.raise = raise
		if extra > 0 {
			quota = Limit(s.Quota + extra)
		}
	}
	if !s.IsCharged {
		return quota
	}
	lowered, isLowered := s.throttle.next(s, m)
	if !isLowered {
		return quota
	}
	isSimilar := s.InForce <= Limit(s.Quota) && max(lowered-s.InForce, s.InForce-lowered) < Limit(max(s.Quota/lowerDivisor, minLowering))
	switch {
	case !m.IsLeased: // an operation would restore the quota
		return quota
	case isSimilar:
		return s.InForce
	}
	return lowered
}

// isLate reports whether it is too late after the period edge to write the quota now, because too much CPU time could
// leak. A write that lowers the quota is not late if it lowers the quota by more than the leak.
func (s *State) isLate(now time.Duration, quota Limit, isKnown bool) bool {
	leak := s.Quota
	if isKnown {
		perPeriod := min(s.InForce, Limit(max(s.Quota, s.MaxQuota)))
		leak = time.Duration(float64(s.edge.sinceLast(now)) / float64(s.Period) * float64(perPeriod))
	}
	return leak > s.Quota/leakDivisor && Limit(leak) > s.InForce-quota
}

// IsFreezing reports whether the group is frozen from time to time instead of getting a lower quota.
func (s *State) IsFreezing() bool { return s.isFreezing }

// isPaying reports whether the group pays for charges or debt. This is so if the quota is below the limit, if it must be lowered below the
// limit, or if isFreezing is true.
func (s *State) isPaying() bool {
	return s.isLow || s.hasChanged && s.InForce < s.base() || s.isFreezing
}

// wake returns the time of the next reading.
func (s *State) wake(m Sample, isKnown bool) (at time.Duration) {
	isBusy := s.isPaying() || s.CanRaise() && (s.Extra() > 0 || s.raise.IsRecent(s.Setting.Setting, m.At))
	switch {
	case s.Frozen: // the kernel's edges do not matter, because the quota does not change
		return nextMultiple(m.At+s.timeToThaw(), freezeTick)
	case !isBusy && !s.CanRaise():
		return s.calmWake(m)
	case isKnown:
		at = s.edge.nextAfter(m.At, edgeDelay)
		if isBusy { // also read shortly before the expected edge, to verify the edge
			at = min(at, s.edge.nextBefore(m.At, edgeDelay))
		}
	case m.At-s.edgeAt > 2*s.Period: // the kernel's period timer has stopped, so a reading cannot locate the edge
		at = m.At + s.Period
	default:
		at = s.edge.probe(m.At)
	}
	if s.isFreezing {
		at = min(at, nextMultiple(m.At, freezeTick))
	}
	return at
}

// timeToThaw returns the time until the account of the frozen group allows a thaw, up to maxThawWait. New charges only extend this time,
// and the frozen group uses no CPU time.
func (s *State) timeToThaw() time.Duration {
	missing := max(s.Quota/freezeDivisor-s.Saved, 0)
	earning := time.Duration(float64(missing) * float64(s.Period) / float64(s.Quota))
	return max(min(earning, maxThawWait, s.changedAt+maxFrozenTime-s.last.At), 0)
}

// calmWake returns the time of the next reading of a calm group. A group is calm if its quota cannot be raised and if it does not pay for
// charges or debt (isPaying). All calm groups are read at the same times, so that they cause a single wake-up.
func (s *State) calmWake(m Sample) time.Duration {
	switch {
	case s.isQuiet():
		return nextMultiple(m.At, quietTick)
	case s.Saved >= s.Quota:
		return nextMultiple(m.At, slowTick)
	default:
		return nextMultiple(m.At, tick)
	}
}

// isQuiet reports whether the group has savings of a quota or more, and few charges.
func (s *State) isQuiet() bool {
	return s.Saved >= s.Quota && s.trend.Charged(s.Period) < s.Quota/quietDivisor
}

// nextMultiple returns the first multiple of a time after now.
func nextMultiple(now, of time.Duration) time.Duration { return now - mod(now, of) + of }

// A throttle lowers the quota of a group whose helpers use a part of its limit. If even the kernel's lowest quota is too high, it freezes
// the group instead. For example, a program that only writes uses 1 ms of CPU time, and its helper 120 ms.
type throttle struct {
	isLow      bool          // the quota must be below the limit
	isFreezing bool          // the group is frozen from time to time instead
	tooHigh    int           // consecutive decisions in which the lowest quota was too high
	changedAt  time.Duration // last change of State.Frozen
}

const (
	freezeTick     = 20 * time.Millisecond // a group that is frozen from time to time is read at multiples of this time
	maxThawWait    = 80 * time.Millisecond // a frozen group is read after this time, plus at most a freezeTick, because it can be killed
	maxFrozenTime  = time.Second           // the group runs at least once in this time
	minThawedTime  = freezeTick
	freezeDivisor  = 25 // the group is frozen at a debt of quota/freezeDivisor, and thawed at savings of the same amount
	maxTooHigh     = 3  // value of tooHigh from which isFreezing is true
	thawMultiplier = 2  // isFreezing becomes false when the group itself can use this multiple of the lowest quota
)

// next returns the quota for the next period, and whether it is below the limit.
func (t *throttle) next(s *State, m Sample) (quota Limit, isLowered bool) {
	wanted := s.trend.Quota(s.Quota, s.Period, s.Saved)
	t.isLow = wanted < s.Quota && (s.trend.IsCharged() || s.Saved < -s.Quota) // the kernel's imprecision causes small debt
	switch {
	case !s.CanFreeze || !m.IsLeased || !t.isLow:
		t.isFreezing, t.tooHigh = false, 0
	case t.isFreezing:
		t.isFreezing = s.Frozen || s.trend.OwnShare()*float64(s.Quota) < float64(thawMultiplier*bandwidth.MinQuota)
	case wanted < bandwidth.MinQuota:
		t.tooHigh++
		t.isFreezing = t.tooHigh >= maxTooHigh
	default:
		t.tooHigh = 0
	}
	if !t.isLow || t.isFreezing {
		return s.base(), false
	}
	return Limit(max(wanted, bandwidth.MinQuota).Truncate(time.Microsecond)), true
}

// updateFrozen sets Frozen. While isFreezing is true, it freezes a group with debt and thaws a group with savings.
func (s *State) updateFrozen(m Sample) {
	was, threshold := s.Frozen, s.Quota/freezeDivisor
	switch {
	case !s.isFreezing || !s.CanFreeze || !m.IsLeased || m.IsKilled:
		s.Frozen = false
	case s.Frozen:
		s.Frozen = s.Saved < threshold && m.At-s.changedAt < maxFrozenTime
	default:
		s.Frozen = s.Saved < -threshold && m.At-s.changedAt >= minThawedTime
	}
	if s.Frozen != was {
		s.changedAt = m.At
	}
}
