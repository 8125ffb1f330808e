package experiment

import (
	"bytes"
	"errors"
	"testing"
)

func TestParseIsolation(t *testing.T) {
	good := isolationReport(2, [2][2]float64{{1, 1}, {1, 1}}, 1)
	checkIsolationRoundTrip(t, good)
	for name, bad := range map[string]func(r *IsolationReport){
		"kind":     func(r *IsolationReport) { r.Kind = "" },
		"version":  func(r *IsolationReport) { r.Version = 9 },
		"case":     func(r *IsolationReport) { r.Cases[1] = "huddled" },
		"app":      func(r *IsolationReport) { r.Runs[1].App = 2 },
		"stressor": func(r *IsolationReport) { r.Runs[1].Stressor = 1 },
		"none":     func(r *IsolationReport) { r.Runs[1].Stressor = -2 },
		"round":    func(r *IsolationReport) { r.Runs[1].Round = -1 },
		"time":     func(r *IsolationReport) { r.Runs[1].Time = 1e-300 },
		"load":     func(r *IsolationReport) { r.Runs[1].Load = &Load{CPUs: -1} },
		"empty":    func(r *IsolationReport) { r.Applications = nil },
	} {
		r := isolationReport(2, [2][2]float64{{1, 1}, {1, 1}}, 1)
		bad(r)
		var text bytes.Buffer
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseIsolation(text.Bytes()); !errors.Is(err, ErrBadReport) {
			t.Errorf("%s: %v, want ErrBadReport", name, err)
		}
	}
}

// FuzzParseIsolation: Verdicts returns a verdict per case and stressor for each accepted report.
func FuzzParseIsolation(f *testing.F) {
	var text bytes.Buffer
	if err := isolationReport(2, [2][2]float64{{1, 1}, {2, 1}}, 1).Write(&text); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add([]byte(`{"kind":"isolation","version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseIsolation(data)
		if err != nil || len(r.Applications)*len(r.Cases)*len(r.Stressors) > 100 {
			return
		}
		if n := len(r.Verdicts()); n != len(r.Cases)*len(r.Stressors) {
			t.Errorf("%d verdicts", n)
		}
	})
}
