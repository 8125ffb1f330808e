package bandwidth

import "time"

// A halt tracks the halts of a group. A halt is a time in which no thread of the group can run, because the runtime of
// the pool and of all CPUs is used up. A thread that wakes up during a halt cannot run either.
type halt struct {
	start    time.Duration                // start of the present or last halt
	isHalted bool                         // a halt is in progress
	onEnd    func(from, to time.Duration) // called at the end of each halt
}

// update records whether the group is halted at a moment, and calls onEnd at the end of a halt.
func (h *halt) update(halted bool, now time.Duration) {
	switch {
	case halted && !h.isHalted:
		h.start = now
	case h.isHalted && !halted:
		h.onEnd(h.start, now)
	}
	h.isHalted = halted
}

// FollowHalts makes the Sim call onEnd at the end of each later halt of a group. A halt is a time in which no thread of
// the group can run because the quota is used up. FollowHalts does nothing for a group without a quota.
func (s *Sim) FollowHalts(group int, onEnd func(from, to time.Duration)) {
	if g := s.groups[group]; g.pool != nil {
		g.halt = &halt{onEnd: onEnd}
	}
}

// Halted reports whether a halt of a group is in progress, and returns the halt's start. The caller must have called
// FollowHalts for the group.
func (s *Sim) Halted(group int) (since time.Duration, halted bool) {
	h := s.groups[group].halt
	if h == nil {
		return 0, false
	}
	return h.start, h.isHalted
}
