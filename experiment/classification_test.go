package experiment

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestClassify: the result of the program is the number of visible CPUs. If a larger result is worse, the
// program is sensitive; a constant result is flexible. The results are no times, so the speed of the machine
// has no effect.
func TestClassify(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: quota and cpuset show the same number")
	}
	for _, test := range []struct {
		name, script, better string
		want                 Verdict
	}{
		{"worse with more", "echo v $(nproc)", "lower", Sensitive},
		{"better with more", "echo v $(nproc)", "higher", Flexible},
		{"constant", "nproc >/dev/null; echo v $((1000 + $$ % 10))", "lower", Flexible},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := ParseMetric(`v (\d+)`)
			if err != nil {
				t.Fatal(err)
			}
			m.HigherIsBetter = test.better == "higher"
			w := NamedWorkload{"small", workloadOf(time.Minute, "sh", "-c", test.script)}
			w.Metrics = []Metric{m}
			c := Classification{Workloads: []NamedWorkload{w}, Limits: []hybrid.Milli{500, hybrid.Milli(1000 * l.usable.Count())}, Metric: m.Name, Margin: DefaultMargin}
			class, err := c.Run(context.Background(), l)
			if err != nil {
				t.Fatal(err)
			}
			voted, skipped := class.Evaluations[0], class.Evaluations[1]
			if class.Class != test.want || !class.Decided || voted.Verdict != test.want || voted.Pairs != 8 || len(voted.Runs) != 18 {
				t.Errorf("%s, decided %v: %s after %d pairs, %d runs, %s; want %s after 8", class.Class, class.Decided, voted.Verdict, voted.Pairs, len(voted.Runs), voted.Why, test.want)
			}
			if !skipped.Skipped || len(skipped.Runs) > 0 {
				t.Errorf("limit of all CPUs: %+v, want it skipped", skipped)
			}
		})
	}
}

// TestClassifyFailures: a program that fails in each run ends the experiment with ErrFailing, and its class
// is undecided.
func TestClassifyFailures(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: quota and cpuset show the same number")
	}
	c := Classification{
		Workloads: []NamedWorkload{{"broken", workloadOf(time.Minute, "false")}},
		Limits:    []hybrid.Milli{500}, Metric: WallTime.Name, Margin: DefaultMargin,
	}
	class, err := c.Run(context.Background(), l)
	if !errors.Is(err, ErrFailing) {
		t.Fatalf("%v, want ErrFailing", err)
	}
	if e := class.Evaluations[0]; class.Class != Undecided || class.Decided || e.Failed != maxFailed || e.Why != "exit code 1" {
		t.Errorf("%s, decided %v: %+v", class.Class, class.Decided, e)
	}
	c.Limits = []hybrid.Milli{hybrid.Milli(1000 * l.usable.Count())}
	if _, err := c.Run(context.Background(), l); !errors.Is(err, ErrNoVote) {
		t.Errorf("%v, want ErrNoVote", err)
	}
}

func TestVote(t *testing.T) {
	for _, test := range []struct {
		verdicts []Verdict // "" is a skipped evaluation
		want     Verdict
		decided  bool
	}{
		{[]Verdict{Sensitive}, Sensitive, true},
		{[]Verdict{Sensitive, Flexible}, Flexible, true}, // a majority needs more than half
		{[]Verdict{Sensitive, Flexible, Sensitive}, Sensitive, true},
		{[]Verdict{Sensitive, ""}, Sensitive, true},
		{[]Verdict{Sensitive, Undecided}, Undecided, false},
		{[]Verdict{Flexible, Undecided}, Flexible, true},
		{[]Verdict{Flexible, Sensitive, Undecided}, Undecided, false},
		{[]Verdict{Flexible, Flexible, Undecided}, Flexible, true},
		{[]Verdict{Undecided}, Undecided, false},
		{[]Verdict{Undecided, Sensitive, Sensitive}, Sensitive, true},
	} {
		c := Class{}
		for _, v := range test.verdicts {
			c.Evaluations = append(c.Evaluations, Evaluation{Verdict: v, Skipped: v == ""})
		}
		if c.vote(); c.Class != test.want || c.Decided != test.decided {
			t.Errorf("%v: %s, decided %v; want %s, %v", test.verdicts, c.Class, c.Decided, test.want, test.decided)
		}
	}
}

func TestBadClassifications(t *testing.T) {
	w := []NamedWorkload{{"w", workloadOf(time.Minute, "true")}}
	for _, test := range []struct {
		c    Classification
		want error
	}{
		{Classification{Limits: []hybrid.Milli{500}}, ErrBadWorkload},
		{Classification{Workloads: w}, ErrBadSetup},
		{Classification{Workloads: w, Limits: []hybrid.Milli{500, 500}}, ErrBadSetup},
		{Classification{Workloads: slices.Concat(w, w), Limits: []hybrid.Milli{500}}, ErrBadWorkload},
		{Classification{Workloads: w, Limits: []hybrid.Milli{1}}, ErrBadSetup},
		{Classification{Workloads: w, Limits: []hybrid.Milli{500}, Margin: math.NaN()}, ErrBadWorkload},
		{Classification{Workloads: slices.Concat(w, []NamedWorkload{{"x", Workload{}}}), Limits: []hybrid.Milli{500}}, ErrBadWorkload},
	} {
		if err := test.c.Check(); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v, want %v", test.c, err, test.want)
		}
	}
}
