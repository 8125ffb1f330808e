package bandwidth

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// halted is the time span of a halt.
type halted struct{ from, to time.Duration }

// TestHalts: a halt lasts from the time when the quota is used up until the next edge of the period, with or
// without waiting threads.
func TestHalts(t *testing.T) {
	for _, c := range []struct {
		name  string
		work  time.Duration
		quota time.Duration
		want  []halted
	}{
		{"more than a quota", 60 * ms, 40 * ms, []halted{{40 * ms, 50 * ms}}},
		{"less", 39 * ms, 40 * ms, nil},
		{"two periods", 100 * ms, 40 * ms, []halted{{40 * ms, 50 * ms}, {90 * ms, 150 * ms}}},
		{"no limit", 100 * ms, 0, nil},
	} {
		s := New(fine, 1, Setting{Bandwidth: Bandwidth{Quota: c.quota, Period: 100 * ms}, Phase: 50 * ms})
		var got []halted
		s.FollowHalts(0, func(from, to time.Duration) { got = append(got, halted{from, to}) })
		s.Add(0, c.work)
		s.Run(time.Second)
		if !slices.EqualFunc(got, c.want, func(a, b halted) bool { return near(a.from, b.from) && a.to == b.to }) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestHaltsAndUse: halts do not overlap, and a group uses no CPU time in a halt, even if work is added.
func TestHaltsAndUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(1).Draw(t, "history")
		s := New(h.kernel, h.cpus, h.settings...)
		last := time.Duration(0)
		s.FollowHalts(0, func(from, to time.Duration) {
			if from < last || to < from {
				t.Fatalf("a halt from %v to %v after a halt until %v", from, to, last)
			}
			last = to
		})
		for _, a := range h.acts {
			before := s.Stat(0).Usage
			_, standing := s.Halted(0)
			ended := last
			s.SetThreads(0, a.threads)
			s.Add(0, a.work)
			s.Run(s.Now() + a.span)
			if standing && last == ended && s.Stat(0).Usage != before {
				t.Fatalf("used %v in a halt", s.Stat(0).Usage-before)
			}
		}
	})
}
