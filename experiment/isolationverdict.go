package experiment

import "math"

// A Slowdown is the cost of a stressor for an application in a case. Without a stressor, it is the cost of the case's allocation.
type Slowdown struct {
	App, Case, Stressor int // indices in the report; Stressor -1: no stressor
	Spread              Spread
	Throttled           float64  // share of the quota's periods in which the application was throttled
	ByStressor          *Against // compared with the application alone in the same case; nil without a stressor
	ByAllocation        *Against // cost of the allocation: without a stressor, compared with the first case; otherwise nil
	Total               *Against // compared with the application alone in the first case, as in the study; nil without a stressor
	gains               []float64
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
	s := Slowdown{App: app, Case: c, Stressor: stressor, Throttled: r.throttled(app, c, stressor)}
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
		s.ByStressor, s.gains = compare(c)
		s.Total, _ = compare(0)
	} else if c > 0 {
		s.ByAllocation, _ = compare(0)
	}
	return s
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
	Worst          *Slowdown // the application with the largest slowdown
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
// tests, which are signed-rank tests of the pairs. A significant slowdown of a single application suffices for Leaks. So these
// tests have the level divided by the number of applications (Bonferroni). For Isolated, the tests of all applications must
// succeed, each at the full level.
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
	margin := math.Log1p(IsolationMargin)
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
		if v.Worst == nil || s.ByStressor.Ratio > v.Worst.ByStressor.Ratio {
			v.Worst = s
		}
		if SignedRank(s.gains, margin) <= IsolationLevel/float64(apps) {
			v.Slowed++
		} else if SignedRank(negate(s.gains), -margin) <= IsolationLevel {
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
