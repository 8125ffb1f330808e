package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// witness writes how many CPUs it sees, and how many processes of stress-ng are in its group.
const witness = `group=$(sed -n 's/^[0-9]*:cpuset://p' /proc/self/cgroup)
folder=/sys/fs/cgroup/cpuset$group
[ -n "$group" ] || folder=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
stress=0
for pid in $(cat $folder/cgroup.procs); do
	if grep -qs stress-ng /proc/$pid/comm; then stress=1; fi
done
[ -w "$TMPDIR" ] && echo $(nproc) $stress >>`

func isolationOf(t *testing.T, cases []Case, stressors ...string) Isolation {
	t.Helper()
	i := Isolation{Cases: cases, Rounds: 2, Tmp: t.TempDir()}
	for _, name := range stressors {
		s, err := NewStressor(name)
		if err == nil {
			err = s.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		i.Stressors = append(i.Stressors, s)
	}
	return i
}

// In each case an application has the CPUs, and the neighbours in its group, that the case is about.
func TestIsolation(t *testing.T) {
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	seen := filepath.Join(t.TempDir(), "seen")
	i := isolationOf(t, Cases, "cpu", "io", "network")
	i.Applications = []NamedWorkload{{Name: "witness", Workload: workloadOf(time.Minute, "sh", "-c", witness+seen)}}
	stages := 0
	i.Progress = func(s IsolationStage) {
		if stages++; s.Run != stages || s.Runs != 2*6*4 {
			t.Errorf("stage %d: %+v", stages, s)
		}
		if stages == 1 {
			os.Truncate(seen, 0) // what was tried out does not count
		}
	}
	r, err := i.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(r.Runs) != 48 || len(lines) != 48 {
		t.Fatalf("%d runs, %d lines; want 48", len(r.Runs), len(lines))
	}
	loads := map[int]float64{}
	for n := range r.Runs {
		run := &r.Runs[n]
		checkWitness(t, r, run, lines[n], l.usable.Count())
		if (run.Load != nil) != (run.Stressor != alone) {
			t.Errorf("%s: load %v", r.doing(run), run.Load)
		}
		if run.Load != nil {
			loads[run.Stressor] += run.Load.CPUs
		}
	}
	for s := range r.Stressors {
		if loads[s] <= 0 {
			t.Errorf("%s used no CPU time", r.Stressors[s].Name)
		}
	}
	checkIsolationAgain(t, r)
}

// checkWitness checks what an application saw in a run.
func checkWitness(t *testing.T, r *IsolationReport, run *IsolationRun, line string, cpus int) {
	t.Helper()
	if run.Failure != "" {
		t.Errorf("%s: %s", r.doing(run), run.Failure)
	}
	want := []int{cpus, 0}
	switch c := r.Cases[run.Case]; {
	case c == CasePinned, c == CaseCandor:
		want[0] = r.Split.Application.CPUs()
	case c == CaseTogether && run.Stressor != alone && r.Stressors[run.Stressor].Name != "network":
		want[1] = 1
	}
	if line != fmt.Sprintf("%d %d", want[0], want[1]) {
		t.Errorf("%s: it saw %q, want %v", r.doing(run), line, want)
	}
}

func checkIsolationAgain(t *testing.T, r *IsolationReport) {
	t.Helper()
	var first, second bytes.Buffer
	if err := r.Write(&first); err != nil {
		t.Fatal(err)
	}
	again, err := ParseIsolation(first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&second); err != nil || first.String() != second.String() {
		t.Errorf("read again (%v) it is another report", err)
	}
}

// What cannot work is told before the runs, and nothing is left of it.
func TestIsolationRefused(t *testing.T) {
	for _, test := range []struct {
		name, application, stressor string
		limit                       hybrid.Milli
		err                         error
		want                        string
	}{
		{"application", "echo no map >&2; exit 3", "", 0, ErrBadWorkload, "bad workload: application app fails alone, in the case quota: exit code 3: no map"},
		{"stressor", "true", "echo no device >&2; exit 3", 0, ErrBadStressor, "bad stressor cpu does not run here, in the case quota: it ended: no device"},
		{"CPUs", "true", "", hybrid.MaxLimit, ErrTooSmall, "too few CPUs for the case quota"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := openLab(t)
			i := isolationOf(t, []Case{CaseQuota}, "cpu")
			i.Applications = []NamedWorkload{{Name: "app", Workload: workloadOf(time.Minute, "sh", "-c", test.application)}}
			i.Limit = test.limit
			if test.stressor != "" {
				i.Stressors[0].Command = []string{"sh", "-c", test.stressor}
			}
			r, err := i.Run(context.Background(), l)
			if r != nil || !errors.Is(err, test.err) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, %v; want %s", r, err, test.want)
			}
		})
	}
}

// A run whose stressor ends before it has failed: it was alone.
func TestStressorEnds(t *testing.T) {
	l := openLab(t)
	i := isolationOf(t, []Case{CaseGroups}, "cpu")
	goes, ended := filepath.Join(t.TempDir(), "goes"), filepath.Join(t.TempDir(), "ended")
	i.Stressors[0].Command = []string{"sh", "-c", "while [ ! -e " + goes + " ]; do :; done; echo enough; echo $$ >" + ended}
	wait := "touch " + goes + "; while [ ! -s " + ended + " ] || kill -0 $(cat " + ended + "); do sleep 0.02; done"
	i.Applications = []NamedWorkload{{Name: "app", Workload: workloadOf(time.Minute, "sh", "-c", wait+" 2>/dev/null")}}
	r := IsolationRun{Stressor: 0}
	report, err := i.newReport(l, splitOf(2, 0))
	if err == nil {
		err = l.openScratch(i.Tmp, 1)
	}
	if err == nil {
		err = l.isolated(context.Background(), report, i.Applications[0].Workload, &r)
	}
	if err != nil || r.Failure != "the stressor ended before it: enough" || r.Time != 0 {
		t.Errorf("%v, %+v; want a failure", err, r)
	}
}

func TestBadIsolations(t *testing.T) {
	good := isolationOf(t, []Case{CaseQuota}, "cpu")
	good.Applications = []NamedWorkload{{Name: "app", Workload: workloadOf(time.Minute, "true")}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		bad  func(i *Isolation)
		want error
	}{
		{"no application", func(i *Isolation) { i.Applications = nil }, ErrBadWorkload},
		{"application twice", func(i *Isolation) { i.Applications = append(i.Applications, i.Applications[0]) }, ErrBadWorkload},
		{"no timeout", func(i *Isolation) { i.Applications = []NamedWorkload{{Name: "x", Workload: workloadOf(0, "true")}} }, ErrBadWorkload},
		{"no case", func(i *Isolation) { i.Cases = nil }, ErrBadCase},
		{"case twice", func(i *Isolation) { i.Cases = []Case{CaseQuota, CaseQuota} }, ErrBadCase},
		{"no stressor", func(i *Isolation) { i.Stressors = nil }, ErrBadStressor},
		{"stressor twice", func(i *Isolation) { i.Stressors = append(i.Stressors, i.Stressors[0]) }, ErrBadStressor},
		{"one round", func(i *Isolation) { i.Rounds = 1 }, ErrBadWorkload},
		{"too many", func(i *Isolation) { i.Rounds = MaxRuns }, ErrBadWorkload},
		{"more than can be counted", func(i *Isolation) { i.Rounds = 1 << 62 }, ErrBadWorkload},
		{"limit", func(i *Isolation) { i.Limit = 1 }, ErrBadSetup},
	} {
		i := good
		test.bad(&i)
		if err := i.Check(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]string{"cpu": "package stress-ng", "network": "package iperf3"} {
		s, err := NewStressor(name)
		if err == nil {
			err = s.Check()
		}
		if !errors.Is(err, ErrBadStressor) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not installed: %v, want %s", name, err, want)
		}
	}
}

// The stressors are the study's, within what the machine and the folder have.
func TestStressors(t *testing.T) {
	for name, want := range map[string]string{
		"cpu": "stress-ng -c 25", "cache": "stress-ng -C 25", "io": "stress-ng -d 8 --hdd-bytes 67108864", "ram": "stress-ng --malloc 8 --malloc-bytes ",
		"network": "iperf3 -c OTHER -w ",
	} {
		s, err := NewStressor(name)
		if err != nil || !strings.HasPrefix(s.Text(), want) {
			t.Errorf("%s: %s, %v; want %s", name, s.Text(), err, want)
		}
		if args := s.args("/folder"); name == "io" && args[len(args)-1] != "/folder" {
			t.Errorf("%v: want its files in /folder", args)
		}
	}
	if _, err := NewStressor("gpu"); !errors.Is(err, ErrBadStressor) {
		t.Errorf("gpu: %v", err)
	}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		cpus          int
		limit         hybrid.Milli
		want          Split
		quota, pinned bool // is possible
	}{
		{1, 0, Split{hybrid.MinLimit, 1000 - hybrid.MinLimit}, true, false},
		{1, 1000, Split{1000, 0}, false, false},
		{2, 0, Split{1000, 1000}, true, true},
		{2, 1500, Split{1500, 500}, true, false},
		{3, 0, Split{1000, 2000}, true, true},
		{8, 0, Split{4000, 4000}, true, true},
		{8, 7001, Split{7001, 999}, true, false},
	} {
		got := splitOf(test.cpus, test.limit)
		if got != test.want || (got.check(CaseQuota) == nil) != test.quota || (got.check(CasePinned) == nil) != test.pinned || got.check(CaseGroups) != nil {
			t.Errorf("%d CPUs, %v: %+v, quota %v, pinned %v; want %+v", test.cpus, test.limit, got, got.check(CaseQuota), got.check(CasePinned), test.want)
		}
	}
}

// isolationReport has two applications, one stressor and two cases; slow says how many times longer an application takes in a
// case beside the stressor, and shrunk how many times longer it takes in the second case at all.
func isolationReport(rounds int, slow [2][2]float64, shrunk float64) *IsolationReport {
	r := &IsolationReport{
		Kind: isolationKind, Version: isolationVersion, Rounds: rounds, Applications: []Application{{Name: "a"}, {Name: "b"}}, Stressors: []Stressor{{Name: "cpu"}},
		Cases: []Case{CaseGroups, CaseQuota},
	}
	for round := range rounds {
		for app := range 2 {
			for c := range 2 {
				time := 10 + float64(round*7%5) + float64(app) // the machine's mood, the same for all of a round
				if c == 1 {
					time *= shrunk
				}
				r.Runs = append(r.Runs, IsolationRun{App: app, Case: c, Stressor: alone, Round: round, Time: time},
					IsolationRun{App: app, Case: c, Round: round, Time: time * (slow[app][c] + 0.001*float64(round)), Load: &Load{CPUs: 2, Rate: 5}})
			}
		}
	}
	return r
}

func TestVerdicts(t *testing.T) {
	for _, test := range []struct {
		name   string
		rounds int
		slow   [2][2]float64
		want   [2]IsolationWord // of the cases
		slowed [2]int
	}{
		{"both cases isolate", 10, [2][2]float64{{1, 1}, {1.02, 1}}, [2]IsolationWord{Isolated, Isolated}, [2]int{}},
		{"one application in one case", 10, [2][2]float64{{1, 1.3}, {1, 1}}, [2]IsolationWord{Isolated, Leaks}, [2]int{0, 1}},
		{"both", 10, [2][2]float64{{2, 1.3}, {2, 1.3}}, [2]IsolationWord{Leaks, Leaks}, [2]int{2, 2}},
		{"faster beside it", 10, [2][2]float64{{0.8, 1}, {0.8, 1}}, [2]IsolationWord{Isolated, Isolated}, [2]int{}},
		{"too few rounds", 4, [2][2]float64{{1, 3}, {1, 3}}, [2]IsolationWord{Uncertain, Uncertain}, [2]int{}},
		{"five rounds are enough for one application, not for one of two", 5, [2][2]float64{{1, 3}, {1, 3}}, [2]IsolationWord{Isolated, Uncertain}, [2]int{}},
		{"about the margin", 10, [2][2]float64{{1.0455, 1}, {1.0455, 1}}, [2]IsolationWord{Uncertain, Isolated}, [2]int{}},
	} {
		for c, v := range isolationReport(test.rounds, test.slow, 2).Verdicts() {
			if v.Verdict != test.want[c] || v.Slowed != test.slowed[c] || v.Case != c || v.Apps != 2 || v.Load != (Load{2, 5}) {
				t.Errorf("%s, case %d: %+v; want %s, %d slowed", test.name, c, v, test.want[c], test.slowed[c])
			}
		}
	}
}

// What a smaller allocation costs is told from what the stressor does.
func TestSlowdowns(t *testing.T) {
	r := isolationReport(9, [2][2]float64{{3, 1.5}, {1, 1}}, 2)
	near := func(a *Against, want float64) bool { return a != nil && a.Ratio > want-0.01 && a.Ratio < want+0.01 }
	all := r.Slowdowns()
	if len(all) != 8 {
		t.Fatalf("%d slowdowns, want 2 x 2 x 2", len(all))
	}
	control, stressed := all[2], all[3] // application a, in the second case
	if control.Stressor != alone || control.ByStressor != nil || !near(control.ByAllocation, 2) {
		t.Errorf("alone: %+v; want twice as long by the allocation", control)
	}
	if stressed.Stressor != 0 || stressed.ByAllocation != nil || !near(stressed.ByStressor, 1.504) || !near(stressed.Total, 3.008) {
		t.Errorf("beside the stressor: %+v; want 1.5 times as long by it, 3 times in all", stressed)
	}
	// A failed run makes no pair.
	r.Runs[0].Failure, r.Runs[0].Time = "exit code 1", 0
	if got := r.Slowdowns()[1].ByStressor; got.Pairs != 8 {
		t.Errorf("%d pairs, want 8", got.Pairs)
	}
	if n, why := r.Failures(); n != 1 || why != "a alone, groups: exit code 1" {
		t.Errorf("%d failures, %q", n, why)
	}
	r.Runs = nil
	for _, v := range r.Verdicts() {
		if v.Verdict != Uncertain || v.Worst != nil || v.Mean != 0 {
			t.Errorf("no runs: %+v", v)
		}
	}
}

func TestParseIsolation(t *testing.T) {
	good := isolationReport(2, [2][2]float64{{1, 1}, {1, 1}}, 1)
	checkIsolationAgain(t, good)
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

// A report that is read can be analysed.
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
