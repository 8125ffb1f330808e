package experiment

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/hybrid"
)

// checkRoundTrip writes a report, reads it and writes it again. Both texts must be equal.
func checkRoundTrip(t *testing.T, r *Report) {
	t.Helper()
	var first, second bytes.Buffer
	if err := r.Write(&first); err != nil {
		t.Fatal(err)
	}
	again, err := ParseReport(first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&second); err != nil || first.String() != second.String() {
		t.Errorf("the report changed when it was written again: %v", err)
	}
}

// TestQuotaThrottles: the kernel throttles a program under a quota, but not under a cpuset.
func TestQuotaThrottles(t *testing.T) {
	l := openLab(t)
	e := Experiment{
		Workload: workloadOf(time.Minute, "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
		Setups:   setupsOf(t, 1000, "none", "cpuset", "candor"), Rounds: 2,
	}
	e.Setups = append(e.Setups, setupsOf(t, 300, "quota")...)
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Compare(WallTime.Name)
	if c[0].Throttled != 0 || c[1].Throttled != 0 || c[2].Throttled != 0 || c[3].Throttled == 0 {
		t.Errorf("throttled %.2f, %.2f, %.2f, %.2f; want only the last", c[0].Throttled, c[1].Throttled, c[2].Throttled, c[3].Throttled)
	}
	if c[0].Against != nil || c[3].Against == nil || c[3].Against.Pairs != 2 {
		t.Errorf("comparison with the first setup: %+v, %+v", c[0].Against, c[3].Against)
	}
	for _, run := range r.Runs {
		if run.CPU <= 0 {
			t.Errorf("%v used no CPU time: %+v", r.Setups[run.Setup], run)
		}
	}
}

// TestFailures: a failed run is part of the report, with the reason. It does not end the experiment.
func TestFailures(t *testing.T) {
	l := openLab(t)
	missing, err := ParseMetric(`rate: (\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, script string
		metrics      []Metric
		want         string
	}{
		{"exit code", "echo no disk >&2; exit 3", nil, "exit code 3: no disk"},
		{"signal", "kill -9 $$", nil, "ended by signal killed"},
		{"no metric", "echo hello", []Metric{missing}, `metric "rate: (\\d+)": the output has no match`},
		{"too long", "sleep 3600 & sleep 3600", nil, "not ended after 300ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := Experiment{Workload: workloadOf(time.Minute, "sh", "-c", test.script), Setups: setupsOf(t, 500, "quota"), Rounds: 2}
			e.Workload.Metrics = test.metrics
			if test.name == "too long" {
				e.Workload.Timeout = 300 * time.Millisecond
			}
			r, err := e.Run(context.Background(), l)
			if err != nil {
				t.Fatal(err)
			}
			if n, why := r.Failures(0); n != 2 || why != test.want {
				t.Errorf("%d failed: %q, want 2: %q", n, why, test.want)
			}
			checkRoundTrip(t, r)
		})
	}
}

// TestOutput: a program writes 20 MB. The last lines are retained, so the metric is found in them.
func TestOutput(t *testing.T) {
	l := openLab(t)
	m, err := ParseMetric(`rate: (\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	e := Experiment{
		Workload: workloadOf(time.Minute, "sh", "-c", "echo rate: 1; yes | head -c 20000000; echo rate: 2"),
		Setups:   setupsOf(t, 0, "none"), Rounds: 2,
	}
	e.Workload.Metrics = []Metric{m}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if values, _ := r.Values(0, m.Name); !slices.Equal(values, []float64{2, 2}) {
		t.Errorf("%v, want 2 twice", values)
	}
}

// TestInterrupted: an experiment that is canceled returns the completed runs.
func TestInterrupted(t *testing.T) {
	l := openLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := Experiment{Workload: workloadOf(time.Minute, "true"), Setups: setupsOf(t, 0, "none"), Rounds: 100}
	e.Progress = func(s Stage) {
		if s.Run == 4 {
			cancel()
		}
	}
	r, err := e.Run(ctx, l)
	if !errors.Is(err, context.Canceled) || !r.Stopped || !r.Partial || len(r.Runs) != 3 {
		t.Errorf("%v, stopped %v, %d runs; want 3", err, r.Stopped, len(r.Runs))
	}
	checkRoundTrip(t, r)
}

func TestBadExperiments(t *testing.T) {
	l := openLab(t)
	good := Experiment{Workload: workloadOf(time.Minute, "true"), Setups: setupsOf(t, 500, "quota"), Rounds: 2}
	for _, test := range []struct {
		name string
		bad  func(e *Experiment)
		want error
	}{
		{"no command", func(e *Experiment) { e.Workload.Command = nil }, ErrBadWorkload},
		{"no such command", func(e *Experiment) { e.Workload.Command = []string{"no-such-command"} }, fs.ErrInvalid},
		{"no timeout", func(e *Experiment) { e.Workload.Timeout = 0 }, ErrBadWorkload},
		{"one run", func(e *Experiment) { e.Rounds = 1 }, ErrBadWorkload},
		{"too many runs", func(e *Experiment) { e.Rounds = MaxRuns + 1 }, ErrBadWorkload},
		{"number of runs overflows", func(e *Experiment) { e.Setups, e.Rounds = setupsOf(t, 500, "quota", "candor"), 1<<63-1 }, ErrBadWorkload},
		{"no setup", func(e *Experiment) { e.Setups = nil }, ErrBadSetup},
		{"setup twice", func(e *Experiment) { e.Setups = append(e.Setups, e.Setups[0]) }, ErrBadSetup},
		{"too few CPUs", func(e *Experiment) { e.Setups = setupsOf(t, hybrid.MaxLimit, "cpuset") }, ErrTooSmall},
	} {
		e := good
		e.Setups = slices.Clone(good.Setups)
		test.bad(&e)
		_, err := e.Run(context.Background(), l)
		if exec := new(launch.ExecError); test.want == fs.ErrInvalid && errors.As(err, &exec) {
			continue
		}
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}
