package experiment

import "math"

// A Comparison compares a setup with the first setup of a report, by one metric.
type Comparison struct {
	Setup     Setup
	Spread    Spread
	Failed    int     // failed rounds
	Throttled float64 // share of the quota's periods in which the workload was throttled
	Others    float64 // CPUs that other programs, interrupts and other virtual machines used during the runs; median

	// Against compares with the first setup. It is nil for the first setup, and if no round has positive values of
	// both setups.
	Against *Against
}

// Confidence is the confidence of the intervals of a report. 1-Confidence is the level of its two-sided tests.
const Confidence = 0.95

// MinPairs is the lowest number of pairs for which there is an interval and a difference can be significant: the p-value of n pairs is at
// least 2/2^n, which is 0.031 for six pairs.
const MinPairs = 6

// Against compares two setups. The interval excludes 1 if P is at most 1-Confidence, and contains 1 otherwise.
type Against struct {
	Pairs    int      // rounds with a run of both setups
	Ratio    float64  // typical ratio of the pairs (HodgesLehmann of the logarithms); below 1: less than the first setup
	Interval Interval // 95 % interval of Ratio; the zero value with fewer than six pairs
	P        float64  // two-sided p-value, by signed ranks of the pairs
	Delta    float64  // Cliff's delta of all runs
}

// IsSignificant reports whether the difference between the setups is significant.
func (a *Against) IsSignificant() bool { return a.P <= 1-Confidence }

// Compare compares the setups of a report by a metric.
func (r *Report) Compare(metric string) []Comparison {
	comparisons := make([]Comparison, len(r.Setups))
	first, firstRounds := r.Values(0, metric)
	for i := range comparisons {
		c := &comparisons[i]
		values, rounds := r.Values(i, metric)
		c.Setup, c.Spread = r.Setups[i], SpreadOf(values)
		c.Failed, _ = r.Failures(i)
		c.Throttled, c.Others = r.throttled(i), r.others(i)
		if gains := logRatios(values, rounds, first, firstRounds); i > 0 && len(gains) > 0 {
			c.Against = compareValues(values, first, gains)
		}
	}
	return comparisons
}

// compareValues compares values with the values of the first setup. gains are the log ratios of the pairs.
func compareValues(values, first, gains []float64) *Against {
	return &Against{
		Pairs: len(gains), Ratio: math.Exp(HodgesLehmann(gains)), Interval: ratioInterval(gains), P: TwoSided(gains), Delta: CliffsDelta(values, first),
	}
}

// ratioInterval returns the interval of a ratio, given the log ratios of the pairs, or the zero value if there are too few pairs.
func ratioInterval(gains []float64) Interval {
	i, ok := PairedInterval(gains, Confidence)
	if !ok {
		return Interval{}
	}
	return Interval{math.Exp(i.Low), math.Exp(i.High)}
}

// logRatios returns log(value / first) for each round in which both values are positive.
func logRatios(values []float64, rounds []int, first []float64, firstRounds []int) (gains []float64) {
	at := map[int]float64{}
	for i, round := range firstRounds {
		at[round] = first[i]
	}
	for i, round := range rounds {
		if other, ok := at[round]; ok && other > 0 && values[i] > 0 {
			gains = append(gains, math.Log(values[i]/other))
		}
	}
	return gains
}

// throttled returns the share of the quota's periods in which the workload was throttled under a setup.
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

// others returns the median of the CPUs that other programs, interrupts and other virtual machines used during a setup's runs.
func (r *Report) others(setup int) float64 {
	var values []float64
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Setup == setup && run.Round >= 0 {
			values = append(values, run.Noise.Others+run.Noise.Stolen)
		}
	}
	return Median(values)
}
