package bandwidth

import "time"

// A halt tracks the times in which no thread of a group can run because the quota is used up. A thread that wakes up
// in such a time cannot run either.
type halt struct {
	since time.Duration
	now   bool // the group is halted
	over  func(from, to time.Duration)
}

func (h *halt) note(halted bool, now time.Duration) {
	switch {
	case halted && !h.now:
		h.since = now
	case h.now && !halted:
		h.over(h.since, now)
	}
	h.now = halted
}

// FollowHalts calls over at the end of each halt of a group that has a quota. A halt is a time in which no thread of
// the group can run.
func (s *Sim) FollowHalts(group int, over func(from, to time.Duration)) {
	if g := s.groups[group]; g.pool != nil {
		g.halt = &halt{over: over}
	}
}

// Halted reports whether no thread of a group can run now, and since when. It requires FollowHalts for the group.
func (s *Sim) Halted(group int) (since time.Duration, halted bool) {
	h := s.groups[group].halt
	if h == nil {
		return 0, false
	}
	return h.since, h.now
}
