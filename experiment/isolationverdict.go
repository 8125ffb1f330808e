package experiment

import (
	"cmp"
	"math"
	"slices"
)

// A Slowdown is the cost of a stressor for an application in a case. Without a stressor, it is the cost of the case's allocation.
type Slowdown struct {
	App, Case, Stressor int // indices in the report; Stressor -1: no stressor
	Spread              Spread
	Throttled           float64  // share of the quota's periods in which the application was throttled
	ByStressor          *Against // compared with the application alone in the same case; nil without a stressor
	// Bounds are the bounds of ByStressor.Ratio at the levels of Verdict.
	Bounds Bounds
	// Verdict is Leaks if the lower bound is above the margin, Isolated if the upper bound is below the margin, and otherwise Uncertain.
	Verdict      IsolationWord
	ByAllocation *Against // cost of the allocation: without a stressor, compared with the first case; otherwise nil
	Total        *Against // compared with the application alone in the first case, as in the study; nil without a stressor
}

// Slowdowns returns, for each application in each case, a Slowdown without a stressor, and then a Slowdown for each stressor.
func (r *IsolationReport) Slowdowns() (all []Slowdown) {
	for app := range r.Applications {
		for c := range r.Cases {
			for stressor := alone; stressor < len(r.Stressors); stressor++ {
				all = append(all, r.slowdown(app, c, stressor))
			}
		}
	}
	return all
}

func (r *IsolationReport) slowdown(app, c, stressor int) Slowdown {
	s := Slowdown{App: app, Case: c, Stressor: stressor, Throttled: r.throttled(app, c, stressor), Verdict: Uncertain}
	times, rounds := r.Times(app, c, stressor)
	s.Spread = SpreadOf(times)
	compare := func(c int) (*Against, []float64) {
		control, controlRounds := r.Times(app, c, alone)
		gains := logRatios(times, rounds, control, controlRounds)
		if len(gains) == 0 {
			return nil, nil
		}
		return compareValues(times, control, gains), gains
	}
	if stressor != alone {
		var gains []float64
		s.ByStressor, gains = compare(c)
		s.Total, _ = compare(0)
		s.judge(gains, len(r.Applications))
	} else if c > 0 {
		s.ByAllocation, _ = compare(0)
	}
	return s
}

// judge sets the bounds and the verdict from the log ratios of the pairs.
func (s *Slowdown) judge(gains []float64, apps int) {
	margin := math.Log1p(IsolationMargin)
	low, hasLow := LowerBound(gains, IsolationLevel/float64(apps))
	high, hasHigh := LowerBound(negate(gains), IsolationLevel)
	high = -high
	if hasLow {
		s.Bounds.Low = math.Exp(low)
	}
	if hasHigh {
		s.Bounds.High = math.Exp(high)
	}
	if hasLow && low > margin {
		s.Verdict = Leaks
	} else if hasHigh && high < margin {
		s.Verdict = Isolated
	}
}

// isWorse reports whether a slowdown with a result is worse than another one: it has the worse verdict or, with the same verdict, the larger
// ratio.
func (s *Slowdown) isWorse(other *Slowdown) bool {
	words := []IsolationWord{Isolated, Uncertain, Leaks}
	return cmp.Or(cmp.Compare(slices.Index(words, s.Verdict), slices.Index(words, other.Verdict)),
		cmp.Compare(s.ByStressor.Ratio, other.ByStressor.Ratio)) > 0
}

// throttled returns the share of the quota's periods in which an application was throttled.
func (r *IsolationReport) throttled(app, c, stressor int) float64 {
	periods, throttled := uint64(0), uint64(0)
	for i := range r.Runs {
		if run := &r.Runs[i]; run.App == app && run.Case == c && run.Stressor == stressor {
			periods, throttled = periods+run.Periods, throttled+run.Throttled
		}
	}
	if periods == 0 {
		return 0
	}
	return float64(throttled) / float64(periods)
}

// An IsolationVerdict states how well a case protects the applications from a stressor.
type IsolationVerdict struct {
	Case, Stressor int
	Verdict        IsolationWord
	Slowed, Apps   int       // applications with a significant slowdown above the margin, and applications with at least one pair of runs
	Mean           float64   // slowdown by the stressor: geometric mean of the applications' ratios; 0: no data
	Total          float64   // like Mean, but compared with the applications alone in the first case, as in the study
	Worst          *Slowdown // the application with the worst slowdown (isWorse)
	Load           Load
}

// An IsolationWord is the outcome of an IsolationVerdict.
type IsolationWord string

// The outcomes of an IsolationVerdict.
const (
	Isolated  IsolationWord = "isolated"  // every application is slowed down by less than the margin
	Leaks     IsolationWord = "leaks"     // at least one application is slowed down by more than the margin
	Uncertain IsolationWord = "uncertain" // the runs are not sufficient for a verdict
)

// IsolationMargin is the slowdown that separates Isolated from Leaks: 0.05 for 5 %. IsolationLevel is the one-sided level of the
// bounds (LowerBound), which belong to the signed-rank test of the pairs. A significant slowdown of a single application suffices for
// Leaks. So the lower bounds have the level divided by the number of applications (Bonferroni). For Isolated, the upper bounds of all
// applications must be below the margin, each at the full level.
const (
	IsolationMargin = 0.05
	IsolationLevel  = 0.05
)

// Verdicts returns a verdict for each case and stressor.
func (r *IsolationReport) Verdicts() (all []IsolationVerdict) {
	slowdowns := r.Slowdowns()
	for c := range r.Cases {
		for stressor := range r.Stressors {
			v := IsolationVerdict{Case: c, Stressor: stressor, Load: r.LoadOf(c, stressor)}
			v.judge(slowdowns, len(r.Applications))
			all = append(all, v)
		}
	}
	return all
}

func (v *IsolationVerdict) judge(slowdowns []Slowdown, apps int) {
	sum, total, isolated := 0.0, 0.0, 0
	for i := range slowdowns {
		s := &slowdowns[i]
		if s.Case != v.Case || s.Stressor != v.Stressor || s.ByStressor == nil {
			continue
		}
		v.Apps++
		sum += math.Log(s.ByStressor.Ratio)
		if s.Total != nil {
			total += math.Log(s.Total.Ratio)
		}
		if v.Worst == nil || s.isWorse(v.Worst) {
			v.Worst = s
		}
		switch s.Verdict {
		case Leaks:
			v.Slowed++
		case Isolated:
			isolated++
		}
	}
	if v.Apps > 0 {
		v.Mean, v.Total = math.Exp(sum/float64(v.Apps)), math.Exp(total/float64(v.Apps))
	}
	switch {
	case v.Slowed > 0:
		v.Verdict = Leaks
	case isolated == apps:
		v.Verdict = Isolated
	default:
		v.Verdict = Uncertain
	}
}
