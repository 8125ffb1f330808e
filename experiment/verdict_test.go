package experiment

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
)

// TestVerdictsInJSON: the JSON of a report has the verdicts that the text has.
func TestVerdictsInJSON(t *testing.T) {
	r := &Report{
		Version: reportVersion, Command: []string{"x"}, Setups: []Setup{{Kind: Quota, Limit: 1000}, {Kind: Candor, Limit: 1000}, {Kind: None}},
		Metrics: []ReportMetric{{Name: WallTime.Name}}, Rounds: 10,
	}
	for round := range 10 {
		for setup, time := range []float64{2, 1, 2} {
			r.Runs = append(r.Runs, Run{Setup: setup, Round: round, Values: map[string]float64{WallTime.Name: time + 0.001*float64(round*(setup+1)%7)}})
		}
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct{ Verdicts []Conclusion }
	if err := json.Unmarshal(text.Bytes(), &got); err != nil || len(got.Verdicts) != 2 {
		t.Fatalf("%v:\n%s", err, &text)
	}
	if v := got.Verdicts[0]; v.Finding != Better || v.Setup != r.Setups[1] || v.Baseline != r.Setups[0] || v.Gain < 1.9 || v.Gain > 2.1 || v.Interval.Low < 1.9 || v.Pairs != 10 {
		t.Errorf("%+v", v)
	}
	if v := got.Verdicts[1]; v.Finding != NoDifference || v.Setup.Kind != None {
		t.Errorf("%+v", v)
	}
	if again, err := ParseReport(text.Bytes()); err != nil || len(again.Runs) != len(r.Runs) {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestIsolationVerdictsInJSON is the same for an isolation, with a verdict per case.
func TestIsolationVerdictsInJSON(t *testing.T) {
	var text bytes.Buffer
	if err := isolationReport(10, [2][2]float64{{1, 1.3}, {1, 1}}, 1).Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct{ Verdicts []IsolationConclusion }
	if err := json.Unmarshal(text.Bytes(), &got); err != nil || len(got.Verdicts) != 2 {
		t.Fatalf("%v:\n%s", err, &text)
	}
	if v := got.Verdicts[0]; len(v.Isolated) != 1 || len(v.Leaks) != 0 || v.Case != CaseGroups {
		t.Errorf("%+v", v)
	}
	if v := got.Verdicts[1]; len(v.Leaks) != 1 || v.Worst == nil || v.Worst.Application != "a" || v.Worst.Bounds.Low < 1.05 {
		t.Errorf("%+v", v)
	}
}

// TestVerdictsOfExtremeValues: a report with extreme values has JSON.
func TestVerdictsOfExtremeValues(t *testing.T) {
	r := &Report{Version: reportVersion, Command: []string{"x"}, Setups: []Setup{{Kind: Quota, Limit: 1000}, {Kind: None}}, Metrics: []ReportMetric{{Name: "rate"}}, Rounds: 6}
	for round := range 6 {
		r.Runs = append(r.Runs, Run{Setup: 0, Round: round, Values: map[string]float64{"rate": maxValue}},
			Run{Setup: 1, Round: round, Values: map[string]float64{"rate": math.SmallestNonzeroFloat64}})
	}
	for _, r.Metrics[0].HigherIsBetter = range []bool{true, false} {
		if err := r.Write(new(bytes.Buffer)); err != nil {
			t.Error(err)
		}
	}
}
