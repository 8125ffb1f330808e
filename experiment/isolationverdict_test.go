package experiment

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// isolationReport returns a report with two applications, a stressor and two cases. slow is the slowdown by
// the stressor, by application and case. shrunk is the slowdown of the second case without the stressor.
func isolationReport(rounds int, slow [2][2]float64, shrunk float64) *IsolationReport {
	r := &IsolationReport{
		Kind: isolationKind, Version: isolationVersion, Rounds: rounds, Applications: []Application{{Name: "a"}, {Name: "b"}}, Stressors: []Stressor{{Name: "cpu"}},
		Cases: []Case{CaseGroups, CaseQuota},
	}
	for round := range rounds {
		for app := range 2 {
			for c := range 2 {
				time := 10 + float64(round*7%5) + float64(app) // noise of the machine, equal within a round
				if c == 1 {
					time *= shrunk
				}
				r.Runs = append(r.Runs, IsolationRun{App: app, Case: c, Stressor: alone, Round: round, Time: time},
					IsolationRun{App: app, Case: c, Round: round, Time: time * (slow[app][c] + 0.001*float64(round)), Load: &Load{CPUs: 2, Rate: 5}})
			}
		}
	}
	return r
}

func TestVerdicts(t *testing.T) {
	for _, test := range []struct {
		name   string
		rounds int
		slow   [2][2]float64
		want   [2]IsolationWord // by case
		slowed [2]int
	}{
		{"both cases isolate", 10, [2][2]float64{{1, 1}, {1.02, 1}}, [2]IsolationWord{Isolated, Isolated}, [2]int{}},
		{"one application in one case", 10, [2][2]float64{{1, 1.3}, {1, 1}}, [2]IsolationWord{Isolated, Leaks}, [2]int{0, 1}},
		{"both applications in both cases", 10, [2][2]float64{{2, 1.3}, {2, 1.3}}, [2]IsolationWord{Leaks, Leaks}, [2]int{2, 2}},
		{"faster with the stressor", 10, [2][2]float64{{0.8, 1}, {0.8, 1}}, [2]IsolationWord{Isolated, Isolated}, [2]int{}},
		{"too few rounds", 4, [2][2]float64{{1, 3}, {1, 3}}, [2]IsolationWord{Uncertain, Uncertain}, [2]int{}},
		{"five rounds are enough for one application, not for one of two", 5, [2][2]float64{{1, 3}, {1, 3}}, [2]IsolationWord{Isolated, Uncertain}, [2]int{}},
		{"about the margin", 10, [2][2]float64{{1.0455, 1}, {1.0455, 1}}, [2]IsolationWord{Uncertain, Isolated}, [2]int{}},
	} {
		for c, v := range isolationReport(test.rounds, test.slow, 2).Verdicts() {
			if v.Verdict != test.want[c] || v.Slowed != test.slowed[c] || v.Case != c || v.Apps != 2 || v.Load != (Load{2, 5}) {
				t.Errorf("%s, case %d: %+v; want %s, %d slowed", test.name, c, v, test.want[c], test.slowed[c])
			}
		}
	}
}

// TestSlowdowns: the slowdown by a smaller allocation and the slowdown by the stressor are separate.
func TestSlowdowns(t *testing.T) {
	r := isolationReport(9, [2][2]float64{{3, 1.5}, {1, 1}}, 2)
	near := func(a *Against, want float64) bool { return a != nil && a.Ratio > want-0.01 && a.Ratio < want+0.01 }
	all := r.Slowdowns()
	if len(all) != 8 {
		t.Fatalf("%d slowdowns, want 2 x 2 x 2", len(all))
	}
	control, stressed := all[2], all[3] // application a, in the second case
	if control.Stressor != alone || control.ByStressor != nil || !near(control.ByAllocation, 2) {
		t.Errorf("alone: %+v; want a ratio of 2 by the allocation", control)
	}
	if stressed.Stressor != 0 || stressed.ByAllocation != nil || !near(stressed.ByStressor, 1.504) || !near(stressed.Total, 3.008) {
		t.Errorf("with the stressor: %+v; want a ratio of 1.5 by the stressor, 3 in total", stressed)
	}
	// A failed run is in no pair.
	r.Runs[0].Failure, r.Runs[0].Time = "exit code 1", 0
	if got := r.Slowdowns()[1].ByStressor; got.Pairs != 8 {
		t.Errorf("%d pairs, want 8", got.Pairs)
	}
	if n, why := r.Failures(); n != 1 || why != "a alone, groups: exit code 1" {
		t.Errorf("%d failures, %q", n, why)
	}
	r.Runs = nil
	for _, v := range r.Verdicts() {
		if v.Verdict != Uncertain || v.Worst != nil || v.Mean != 0 {
			t.Errorf("no runs: %+v", v)
		}
	}
}

// TestBoundsAgreeWithVerdict: the verdict on an application, its bounds and the signed-rank tests always agree.
func TestBoundsAgreeWithVerdict(t *testing.T) {
	margin := math.Log1p(IsolationMargin)
	rapid.Check(t, func(t *rapid.T) {
		apps := rapid.IntRange(1, 8).Draw(t, "applications")
		near := rapid.Float64Range(-0.05, 0.15).Draw(t, "near")
		gains := rapid.SliceOfN(rapid.Map(rapid.IntRange(-20, 20), func(n int) float64 { return near + 0.002*float64(n) }), 1, 25).Draw(t, "gains")
		s := Slowdown{Verdict: Uncertain}
		s.judge(gains, apps)
		want := Uncertain
		if SignedRank(gains, margin) <= IsolationLevel/float64(apps) {
			want = Leaks
		} else if SignedRank(negate(gains), -margin) <= IsolationLevel {
			want = Isolated
		}
		if s.Verdict != want {
			t.Fatalf("%s by the bounds, %s by the tests", s.Verdict, want)
		}
		const rounding = 1e-12
		isAbove, isBelow := s.Bounds.Low > 1+IsolationMargin-rounding, s.Bounds.High > 0 && s.Bounds.High < 1+IsolationMargin+rounding
		if s.Verdict == Leaks && !isAbove || s.Verdict == Isolated && !isBelow || s.Verdict == Uncertain && (s.Bounds.Low > 1+IsolationMargin+rounding) {
			t.Fatalf("%s with the bounds %+v", s.Verdict, s.Bounds)
		}
		if len(gains) < 5 && s.Bounds != (Bounds{}) || len(gains) >= 5 && s.Bounds.High == 0 || s.Bounds.Low > s.Bounds.High {
			t.Fatalf("%d pairs: bounds %+v", len(gains), s.Bounds)
		}
	})
}

// TestWorstIsALeak: the worst slowdown of a case that leaks is a leak, even if an uncertain slowdown has a larger ratio.
func TestWorstIsALeak(t *testing.T) {
	r := isolationReport(10, [2][2]float64{{1.2, 1}, {1, 1}}, 1)
	for i := range r.Runs { // application b is slow in most rounds, and fast in the others
		if run := &r.Runs[i]; run.App == 1 && run.Case == 0 && run.Stressor == 0 && run.Round < 6 {
			run.Time *= 3
		} else if run.App == 1 && run.Case == 0 && run.Stressor == 0 {
			run.Time /= 2
		}
	}
	v := r.Verdicts()[0]
	if v.Verdict != Leaks || v.Worst == nil || v.Worst.App != 0 || v.Worst.Verdict != Leaks {
		t.Errorf("%+v, worst %+v", v, v.Worst)
	}
	for _, s := range r.Slowdowns() {
		if s.App == 1 && s.Case == 0 && s.Stressor == 0 && (s.Verdict != Uncertain || s.ByStressor.Ratio < v.Worst.ByStressor.Ratio) {
			t.Errorf("the other application: %+v, %+v", s, s.ByStressor)
		}
	}
	if c := r.Conclusions()[0]; c.Worst.Application != "a" || c.Worst.Bounds != v.Worst.Bounds || c.Worst.Bounds.Low < 1.05 {
		t.Errorf("%+v", c.Worst)
	}
}
