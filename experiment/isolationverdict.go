package experiment

import "math"

// A Slowdown is what a stressor costs an application in a case.
type Slowdown struct {
	App, Case, Stressor int // indices of the report; a stressor of -1: none
	Spread              Spread
	Throttled           float64  // share of the periods in which the application's quota ran out
	ByStressor          *Against // against the same case alone; nil for that itself
	ByAllocation        *Against // alone, against alone in the first case: what the smaller allocation costs; nil beside stressors
	Total               *Against // against alone in the first case, as the study compares
	gains               []float64
}

// Slowdowns returns one for each application, case and stressor, and for each case alone, in that order.
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
		gains := pairs(times, rounds, control, controlRounds)
		if len(gains) == 0 {
			return nil, nil
		}
		return against(times, control, gains), gains
	}
	if stressor != alone {
		s.ByStressor, s.gains = compare(c)
		s.Total, _ = compare(0)
	} else if c > 0 {
		s.ByAllocation, _ = compare(0)
	}
	return s
}

// throttled is the share of an application's periods in which the quota ran out.
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

// An IsolationVerdict is how well a case keeps a stressor from the applications.
type IsolationVerdict struct {
	Case, Stressor int
	Verdict        IsolationWord
	Slowed, Apps   int       // applications that are slowed down by more than the margin for sure, and all with enough pairs
	Mean           float64   // slowdown by the stressor: the geometric mean of the applications' medians; 0: none has any
	Total          float64   // the same against alone in the first case, as the study compares
	Worst          *Slowdown // the application with the largest slowdown
	Load           Load
}

// An IsolationWord is a verdict.
type IsolationWord string

const (
	Isolated  IsolationWord = "isolated"  // every application is slowed down by less than the margin
	Leaks     IsolationWord = "leaks"     // at least one is slowed down by more
	Uncertain IsolationWord = "uncertain" // the runs do not tell
)

// IsolationMargin is a slowdown that does not count, and IsolationLevel the level of the tests: exact signed ranks of the
// pairs, one-sided. That one application of several is slowed down by chance is as likely as that one alone is: its level is
// divided by their number (Bonferroni). That all are isolated takes a test of each at the level itself.
const (
	IsolationMargin = 0.05
	IsolationLevel  = 0.05
)

// Verdicts returns one for each case and stressor.
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
		} else if SignedRank(negated(s.gains), -margin) <= IsolationLevel {
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
