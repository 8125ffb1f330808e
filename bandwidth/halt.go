package bandwidth

import "time"

// A halt is what is known of the times in which nothing of a group can run, also no thread that wakes up only now: its quota is used up.
type halt struct {
	since time.Duration
	now   bool // it is so now
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

// FollowHalts calls over for each time in which nothing of a group that has a quota could run, when it may go on.
func (s *Sim) FollowHalts(group int, over func(from, to time.Duration)) {
	if g := s.groups[group]; g.pool != nil {
		g.halt = &halt{over: over}
	}
}

// Halted reports whether nothing of a group whose halts are followed can run now, and since when.
func (s *Sim) Halted(group int) (since time.Duration, halted bool) {
	h := s.groups[group].halt
	if h == nil {
		return 0, false
	}
	return h.since, h.now
}
