package experiment

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// reportOf returns a report with a baseline and setups. The value of a setup is the value of the baseline
// times factor.
func reportOf(name string, limit Setup, metric ReportMetric, factor float64, setups ...Setup) *Report {
	r := &Report{Name: name, Command: []string{"/bin/" + name}, Metrics: []ReportMetric{metric}, Rounds: 8,
		Machine: Machine{Model: "x", CPUs: 2, Load: name}, Setups: append([]Setup{limit}, setups...)}
	for round := range r.Rounds {
		for i := range r.Setups {
			value := float64(10 + round)
			if i > 0 {
				value *= factor
			}
			r.Runs = append(r.Runs, Run{Setup: i, Round: round, Values: map[string]float64{metric.Name: value}})
		}
	}
	return r
}

// TestTogetherGains: the table contains the gain of each program and setup, for metrics of both directions.
// Reports with different baselines or machines are refused.
func TestTogetherGains(t *testing.T) {
	quota, candor, cpuset := Setup{Kind: Quota, Limit: 500}, Setup{Kind: Candor, Limit: 500}, Setup{Kind: Cpuset, Limit: 500}
	time, rate := ReportMetric{Name: "time"}, ReportMetric{Name: "rate", HigherIsBetter: true}
	p, err := Together([]*Report{
		reportOf("one", quota, time, 0.5, candor),
		reportOf("two", quota, rate, 0.5, cpuset, candor),
	})
	if err != nil || len(p.Setups) != 2 || p.Setups[0] != candor || p.Setups[1] != cpuset {
		t.Fatalf("%+v, %v; want candor and cpuset", p, err)
	}
	near := func(g *Gain, want float64) bool {
		return g != nil && math.Abs(g.Ratio-want) < 1e-9 && math.Abs(g.Interval.Low-want) < 1e-9 && g.Pairs == 8
	}
	if one := p.Programs[0]; one.Name != "one" || !near(one.Gains[0], 2) || one.Gains[1] != nil {
		t.Errorf("%+v: want a gain of 2 for half the time, and none for cpuset", one)
	}
	if two := p.Programs[1]; !near(two.Gains[0], 0.5) || !near(two.Gains[1], 0.5) {
		t.Errorf("%+v: want a gain of 0.5 for half the rate", two)
	}
	other := reportOf("three", quota, time, 1, candor)
	other.Machine.CPUs = 4
	for want, bad := range map[string]*Report{
		"the baseline of three is quota at 1": reportOf("three", Setup{Kind: Quota, Limit: 1000}, time, 1, candor),
		"the baseline of three is candor":     reportOf("three", candor, time, 1, quota),
		"three ran on x, 4 CPUs":              other,
		`two programs have the name "one"`:    reportOf("one", quota, time, 1, candor),
	} {
		if _, err := Together([]*Report{reportOf("one", quota, time, 1, candor), bad}); !errors.Is(err, ErrOtherBase) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
