package experiment

import "math"

// A Comparison is how a set-up does beside the first one, by one metric.
type Comparison struct {
	Setup     Setup   `json:"setup"`
	Spread    Spread  `json:"spread"`
	Failed    int     `json:"failed"`
	Why       string  `json:"why,omitempty"`
	Throttled float64 `json:"throttled"` // share of the periods in which the quota ran out
	Others    float64 `json:"others"`    // CPUs that others used meanwhile, the median

	// Against the first set-up; nil for that itself, and where either has no runs.
	Against *Against `json:"against,omitempty"`
}

// Against compares two set-ups.
type Against struct {
	Ratio    float64  `json:"ratio"`    // of the medians; below 1: less than the first
	Interval Interval `json:"interval"` // 95 %
	P        float64  `json:"p"`        // two-sided: by signed ranks of the pairs of each round
	Pairs    int      `json:"pairs"`
	U        float64  `json:"u"`     // two-sided: by Mann and Whitney, without the pairs
	Delta    float64  `json:"delta"` // Cliff's
}

// Compare compares the set-ups of a report by a metric.
func (r *Report) Compare(metric string) []Comparison {
	comparisons := make([]Comparison, len(r.Setups))
	first, firstRounds := r.Values(0, metric)
	for i := range comparisons {
		c := &comparisons[i]
		values, rounds := r.Values(i, metric)
		c.Setup, c.Spread = r.Setups[i], SpreadOf(values)
		c.Failed, c.Why = r.Failures(i)
		c.Throttled, c.Others = r.throttled(i), r.others(i)
		if i > 0 && len(values) > 0 && len(first) > 0 {
			c.Against = against(values, first, pairs(values, rounds, first, firstRounds))
		}
	}
	return comparisons
}

// Ratio is the median of a set-up over that of the first one, by a metric; 0 where either has no runs.
func (r *Report) Ratio(setup int, metric string) float64 {
	values, _ := r.Values(setup, metric)
	first, _ := r.Values(0, metric)
	if len(values) == 0 || len(first) == 0 {
		return 0
	}
	return Median(values) / Median(first)
}

// against compares values with those of the first set-up; gains are of their pairs.
func against(values, first, gains []float64) *Against {
	p := 2 * min(SignedRank(gains, 0), SignedRank(negated(gains), 0))
	return &Against{
		Ratio: Median(values) / Median(first), Interval: RatioInterval(values, first, 0.95),
		P: min(p, 1), Pairs: len(gains), U: MannWhitney(values, first), Delta: CliffsDelta(values, first),
	}
}

// pairs returns the logarithms of the ratios of values of the same round.
func pairs(values []float64, rounds []int, first []float64, firstRounds []int) (gains []float64) {
	at := map[int]float64{}
	for i, round := range firstRounds {
		at[round] = first[i]
	}
	for i, round := range rounds {
		if other, has := at[round]; has && other > 0 && values[i] > 0 {
			gains = append(gains, math.Log(values[i]/other))
		}
	}
	return gains
}

// throttled is the share of a set-up's periods in which the quota ran out.
func (r *Report) throttled(setup int) float64 {
	periods, throttled := uint64(0), uint64(0)
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Setup == setup && run.Round >= 0 {
			periods += run.Periods
			throttled += run.Throttled
		}
	}
	if periods == 0 {
		return 0
	}
	return float64(throttled) / float64(periods)
}

// others is how many CPUs others used during a set-up's runs, the median.
func (r *Report) others(setup int) float64 {
	var values []float64
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Setup == setup && run.Round >= 0 {
			values = append(values, run.Noise.Others+run.Noise.Stolen)
		}
	}
	return Median(values)
}
