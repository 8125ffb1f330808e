package bandwidth

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A history is a sequence of random actions on some groups.
type history struct {
	kernel   Kernel
	cpus     int
	settings []Setting
	acts     []act
}

// An act changes the work and the threads of a group. Then the simulation runs for span.
type act struct {
	group, threads int
	work           time.Duration
	drop           bool
	span           time.Duration
}

func span(low, high time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(int64(low), int64(high)), func(n int64) time.Duration { return time.Duration(n) })
}

// bandwidths generates common and uncommon limits.
var bandwidths = rapid.Custom(func(t *rapid.T) (b Bandwidth) {
	b.Period = rapid.OneOf(rapid.Just(100*ms), span(ms, time.Second)).Draw(t, "period")
	b.Quota = rapid.OneOf(rapid.Just(b.Period/2+ms), span(ms, 4*b.Period+ms)).Draw(t, "quota")
	b.Burst = rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Just(b.Quota), span(0, b.Quota)).Draw(t, "burst")
	return b
})

// histories generates histories of a number of groups.
func histories(groups int) *rapid.Generator[history] {
	return rapid.Custom(func(t *rapid.T) (h history) {
		h.kernel = rapid.SampledFrom([]Kernel{Linux, {ms, 5 * ms, ms}, {10 * ms, 5 * ms, ms}, {ms / 2, ms / 2, ms / 4}}).Draw(t, "kernel")
		h.cpus = rapid.IntRange(1, 8).Draw(t, "CPUs")
		for range groups {
			s := Setting{Bandwidth: bandwidths.Draw(t, "bandwidth"), Weight: rapid.IntRange(1, 1000).Draw(t, "weight"), Phase: span(0, 2*time.Second).Draw(t, "phase"), HasFullBurst: rapid.Bool().Draw(t, "rested")}
			if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
				s.Bandwidth = Bandwidth{}
			}
			h.settings = append(h.settings, s)
		}
		h.acts = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
			return act{
				group: rapid.IntRange(0, groups-1).Draw(t, "group"), threads: rapid.IntRange(1, 10).Draw(t, "threads"),
				work: rapid.OneOf(span(0, 100*time.Microsecond), span(0, time.Second)).Draw(t, "work"),
				drop: rapid.IntRange(0, 9).Draw(t, "drop") == 0, span: rapid.OneOf(span(1, 10*ms), span(1, time.Second)).Draw(t, "span"),
			}
		}), 1, 30).Draw(t, "acts")
		return h
	})
}

// play runs a history and calls check after each act.
func (h *history) play(check func(s *Sim, a act, dropped time.Duration)) *Sim {
	s := New(h.kernel, h.cpus, h.settings...)
	for _, a := range h.acts {
		var dropped time.Duration
		if a.drop {
			dropped = s.Drop(a.group)
		}
		s.SetThreads(a.group, a.threads)
		s.Add(a.group, a.work)
		s.Run(s.Now() + a.span)
		check(s, a, dropped)
	}
	return s
}

// slop returns the possible error of a group's use: slices that its CPUs have drawn and not used, and time
// that they used before they drew the slice.
func (h *history) slop() time.Duration {
	return time.Duration(h.cpus) * (h.kernel.Slice + h.kernel.Tick)
}

// TestConservation: all demand is used, dropped or in the backlog, and the use does not exceed the time of
// the CPUs.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(3).Draw(t, "history")
		var given, taken [3]time.Duration
		h.play(func(s *Sim, a act, dropped time.Duration) {
			given[a.group] += a.work
			taken[a.group] += dropped
			all := time.Duration(0)
			for g := range given {
				stat := s.Stat(g)
				if stat.Usage+s.Backlog(g)+taken[g] != given[g] {
					t.Fatalf("group %d: used %v, backlog %v, dropped %v, of %v", g, stat.Usage, s.Backlog(g), taken[g], given[g])
				}
				if stat.Throttled > stat.Periods || stat.Bursts > stat.Periods {
					t.Fatalf("group %d: %+v", g, stat)
				}
				all += stat.Usage
			}
			if all > s.Now()*time.Duration(h.cpus) {
				t.Fatalf("used %v in %v on %d CPUs", all, s.Now(), h.cpus)
			}
		})
	})
}

// TestIdleCPUs: a CPU is idle only if no group that may use it has work.
func TestIdleCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(3).Draw(t, "history")
		for i := range h.settings {
			h.settings[i].Bandwidth = Bandwidth{}
		}
		before := time.Duration(0)
		h.play(func(s *Sim, a act, _ time.Duration) {
			all, wanted := time.Duration(0), 0
			for g := range h.settings {
				all += s.Stat(g).Usage
				if s.Backlog(g) > 0 { // it had work all the time
					wanted += min(s.groups[g].threads, h.cpus)
				}
			}
			least := a.span * time.Duration(min(wanted, h.cpus))
			if all-before < least-least/10000-time.Microsecond { // each step loses a part of a nanosecond
				t.Fatalf("used %v in %v, while %d of %d CPUs were wanted", all-before, a.span, wanted, h.cpus)
			}
			before = all
		})
	})
}

// TestBound: in k periods, a group uses at most k quotas and the burst.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(2).Draw(t, "history")
		h.settings[0].Bandwidth = bandwidths.Draw(t, "limit")
		b := h.settings[0].Bandwidth
		type sample struct{ at, used time.Duration }
		samples := []sample{{}}
		h.play(func(s *Sim, _ act, _ time.Duration) {
			now := sample{s.Now(), s.Stat(0).Usage}
			for _, before := range samples {
				edges := (now.at-before.at)/b.Period + 1
				if most := (edges+1)*b.Quota + b.Burst + h.slop(); now.used-before.used > most {
					t.Fatalf("used %v within %v, of at most %v", now.used-before.used, now.at-before.at, most)
				}
			}
			samples = append(samples, now)
		})
	})
}

// TestNoBurst: a group without a burst saves nothing and has no burst in its counters.
func TestNoBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(1).Draw(t, "history")
		h.settings[0].Bandwidth = bandwidths.Draw(t, "limit")
		h.settings[0].Burst = 0
		s := h.play(func(s *Sim, _ act, _ time.Duration) {
			if over := s.groups[0].runtime - h.settings[0].Quota - h.slop(); over > 0 {
				t.Fatalf("the pool holds %v more than the quota", over)
			}
		})
		if got := s.Stat(0); got.Bursts != 0 || got.BurstTime != 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// TestMoreIsNeverWorse: with a higher quota or burst, no work is done later.
func TestMoreIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(1).Draw(t, "history")
		h.settings[0].Bandwidth = bandwidths.Draw(t, "limit")
		for i := range h.acts {
			h.acts[i].drop = false // the dropped work depends on the work done
		}
		var used []time.Duration
		h.play(func(s *Sim, _ act, _ time.Duration) { used = append(used, s.Stat(0).Usage) })
		more := h
		more.settings = []Setting{h.settings[0]}
		more.settings[0].Quota += span(0, time.Second).Draw(t, "more quota")
		more.settings[0].Burst = span(h.settings[0].Burst, more.settings[0].Quota).Draw(t, "more burst")
		i := 0
		more.play(func(s *Sim, _ act, _ time.Duration) {
			if got := s.Stat(0).Usage; got < used[i]-h.slop() {
				t.Fatalf("%+v: %v at %v; %+v: %v", h.settings[0].Bandwidth, used[i], s.Now(), more.settings[0].Bandwidth, got)
			}
			i++
		})
	})
}

// TestEnoughQuota: a quota for all CPUs has no effect, if it exceeds the slices that the CPUs can draw in
// advance.
func TestEnoughQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(1).Draw(t, "history")
		free := h
		free.settings = []Setting{{}}
		period := span(100*ms, time.Second).Draw(t, "period")
		h.settings[0].Bandwidth = Bandwidth{Quota: period*time.Duration(h.cpus) + h.slop(), Period: period}
		var used []time.Duration
		free.play(func(s *Sim, _ act, _ time.Duration) { used = append(used, s.Stat(0).Usage) })
		i := 0
		h.play(func(s *Sim, _ act, _ time.Duration) {
			if got := s.Stat(0); got.Usage != used[i] || got.Throttled != 0 || got.ThrottledTime != 0 {
				t.Fatalf("%+v at %v, without a limit %v", got, s.Now(), used[i])
			}
			i++
		})
	})
}

// TestFollow: Follow reports a piece of work as done when the use reaches the sum of all demand up to this
// piece. The last piece ends with the backlog.
func TestFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories(1).Draw(t, "history")
		s := New(h.kernel, h.cpus, h.settings...)
		var done []time.Duration
		s.Follow(0, func(at time.Duration) { done = append(done, at) })
		demand, added := time.Duration(0), []time.Duration{}
		for _, a := range h.acts {
			s.SetThreads(0, a.threads)
			s.Add(0, a.work)
			demand += a.work
			added = append(added, demand)
			s.Run(s.Now() + a.span)
			used := s.Stat(0).Usage
			for i, mark := range added {
				if is := i < len(done); is != (mark <= used) && mark != used || is && (done[i] > s.Now() || i > 0 && done[i] < done[i-1]) {
					t.Fatalf("used %v; work %d ends at %v of use; done at %v", used, i, mark, done)
				}
			}
			if s.Backlog(0) == 0 && len(done) > 0 && (s.DoneAt(0)-done[len(done)-1]).Abs() > time.Microsecond && demand > 0 && a.work > 0 {
				t.Fatalf("the last work was done at %v, the backlog at %v", done[len(done)-1], s.DoneAt(0))
			}
		}
	})
}
