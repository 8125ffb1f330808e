package bandwidth

import "time"

// A halt tracks the times in which no thread of a group can run because the quota is used up. A thread that wakes up
// in such a time cannot run either.
type halt struct {
	start    time.Duration
	isHalted bool // the group is halted
	onEnd    func(from, to time.Duration)
}

func (h *halt) update(halted bool, now time.Duration) {
	switch {
	case halted && !h.isHalted:
		h.start = now
	case h.isHalted && !halted:
		h.onEnd(h.start, now)
	}
	h.isHalted = halted
}

// FollowHalts calls onEnd at the end of each halt of a group that has a quota. A halt is a time in which no thread of
// the group can run.
func (s *Sim) FollowHalts(group int, excess func(from, to time.Duration)) {
	if g := s.groups[group]; g.pool != nil {
		g.halt = &halt{onEnd: excess}
	}
}

// Halted reports whether no thread of a group can run now, and since when. It requires FollowHalts for the group.
func (s *Sim) Halted(group int) (since time.Duration, halted bool) {
	h := s.groups[group].halt
	if h == nil {
		return 0, false
	}
	return h.start, h.isHalted
}
