package experiment

import "math"

// A Finding is the result of the comparison of two setups.
type Finding string

// The findings.
const (
	Better       Finding = "better"        // significantly better than the first setup
	Worse        Finding = "worse"         // significantly worse than the first setup
	NoDifference Finding = "no difference" // no significant difference
	NotMeasured  Finding = "not measured"  // fewer than MinPairs pairs
)

// A Conclusion is the verdict on a setup compared with the first setup, by the last metric of the report.
type Conclusion struct {
	Setup    Setup    `json:"setup"`
	Baseline Setup    `json:"baseline"`
	Metric   string   `json:"metric"`
	Finding  Finding  `json:"finding"`
	Gain     float64  `json:"gain,omitempty"` // typical improvement; above 1: better than the baseline
	Interval Interval `json:"ci,omitzero"`    // 95 % interval of Gain
	P        float64  `json:"p,omitempty"`
	Pairs    int      `json:"pairs"`
}

// Conclusions returns a verdict for each setup except the first.
func (r *Report) Conclusions() []Conclusion {
	list := []Conclusion{}
	if len(r.Metrics) == 0 || len(r.Setups) == 0 { // the report is invalid
		return list
	}
	metric := r.Metrics[len(r.Metrics)-1]
	for _, c := range r.Compare(metric.Name)[1:] {
		v := Conclusion{Setup: c.Setup, Baseline: r.Setups[0], Metric: metric.Name, Finding: NotMeasured}
		if c.Against != nil {
			v.Pairs = c.Against.Pairs
		}
		if v.Pairs >= MinPairs {
			g := c.gain(metric.HigherIsBetter)
			v.Gain, v.Interval = finite(g.Ratio), Interval{finite(g.Interval.Low), finite(g.Interval.High)}
			v.P, v.Finding = g.P, NoDifference
			if c.Against.IsSignificant() && g.Ratio > 1 {
				v.Finding = Better
			} else if c.Against.IsSignificant() {
				v.Finding = Worse
			}
		}
		list = append(list, v)
	}
	return list
}

// finite returns the nearest number that JSON can represent. The ratio of a large and a tiny value can be infinite.
func finite(v float64) float64 { return min(v, math.MaxFloat64) }

// An IsolationConclusion is the verdict on a case: the effect of all stressors on all applications.
type IsolationConclusion struct {
	Case      Case     `json:"case"`
	Isolated  []string `json:"isolated"`      // stressors from which every application is isolated
	Leaks     []string `json:"leaks"`         // stressors that slow at least one application down
	Uncertain []string `json:"uncertain"`     // the other stressors
	Mean      float64  `json:"mean,omitzero"` // slowdown by the stressors: geometric mean; 0: no data
	Worst     *Worst   `json:"worst,omitempty"`
}

// Worst is the worst slowdown in a case: one with a leak if there is any, and of these the largest.
type Worst struct {
	Application string  `json:"application"`
	Stressor    string  `json:"stressor"`
	Ratio       float64 `json:"ratio"`
	Bounds      Bounds  `json:"bounds"` // of Ratio, at the levels of the verdict
}

// Conclusions returns a verdict for each case. It combines the results of Verdicts, so it agrees with the table of the verdicts.
func (r *IsolationReport) Conclusions() []IsolationConclusion {
	list := make([]IsolationConclusion, len(r.Cases))
	sums, counts := make([]float64, len(r.Cases)), make([]int, len(r.Cases))
	worst := make([]*Slowdown, len(r.Cases))
	for i := range list {
		list[i] = IsolationConclusion{Case: r.Cases[i], Isolated: []string{}, Leaks: []string{}, Uncertain: []string{}}
	}
	for _, v := range r.Verdicts() {
		c, name := &list[v.Case], r.Stressors[v.Stressor].Name
		switch v.Verdict {
		case Isolated:
			c.Isolated = append(c.Isolated, name)
		case Leaks:
			c.Leaks = append(c.Leaks, name)
		default:
			c.Uncertain = append(c.Uncertain, name)
		}
		if v.Mean > 0 {
			sums[v.Case] += math.Log(v.Mean)
			counts[v.Case]++
		}
		if v.Worst != nil && (worst[v.Case] == nil || v.Worst.isWorse(worst[v.Case])) {
			worst[v.Case] = v.Worst
			c.Worst = &Worst{r.Applications[v.Worst.App].Name, name, v.Worst.ByStressor.Ratio, v.Worst.Bounds}
		}
	}
	for i := range list {
		if counts[i] > 0 {
			list[i].Mean = math.Exp(sums[i] / float64(counts[i]))
		}
	}
	return list
}
