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

// witness is a shell script that appends the number of visible CPUs to a file, and 1 if stress-ng runs in its cgroup.
const witness = `group=$(sed -n 's/^[0-9]*:cpuset://p' /proc/self/cgroup)
folder=/sys/fs/cgroup/cpuset$group
[ -n "$group" ] || folder=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
stress=0
for pid in $(cat $folder/cgroup.procs); do
	if grep -qs stress-ng /proc/$pid/comm; then stress=1; fi
done
[ -w "$TMPDIR" ] && echo $(nproc) $stress >>`

// isolationOf returns an isolation experiment of two rounds with the cases and stressors.
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

// TestIsolation: in each case, the application sees the CPUs of the case. stress-ng runs in its cgroup only
// in the case together.
func TestIsolation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	l := openLab(t)
	if l.usable.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	seen := filepath.Join(t.TempDir(), "seen")
	i := isolationOf(t, Cases, "cpu", "network")
	i.Applications = []NamedWorkload{{Name: "witness", Workload: workloadOf(time.Minute, "sh", "-c", witness+seen)}}
	stages := 0
	i.Progress = func(s IsolationStage) {
		if stages++; s.Run != stages || s.Runs != 2*6*3 {
			t.Errorf("stage %d: %+v", stages, s)
		}
		if stages == 1 {
			os.Truncate(seen, 0) // drop the lines of the trial run
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
	if len(r.Runs) != 36 || len(lines) != 36 {
		t.Fatalf("%d runs, %d lines; want 36", len(r.Runs), len(lines))
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
	checkIsolationRoundTrip(t, r)
}

// checkWitness compares a line of the witness with the case and the stressor of a run.
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

// checkIsolationRoundTrip writes a report, reads it and writes it again. Both texts must be equal.
func checkIsolationRoundTrip(t *testing.T, r *IsolationReport) {
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
		t.Errorf("the report changed when it was written again: %v", err)
	}
}

// TestIsolationRefused: an impossible experiment is refused before its runs, and no cgroups or files remain.
func TestIsolationRefused(t *testing.T) {
	for _, test := range []struct {
		name, application, stressor string
		limit                       hybrid.Milli
		err                         error
		want                        string
	}{
		{"application", "echo no map >&2; exit 3", "", 0, ErrBadWorkload, "bad workload: application app fails alone, in the case quota: exit code 3: no map"},
		{"stressor", "true", "echo no device >&2; exit 3", 0, ErrBadStressor, "bad stressor cpu does not run here, in the case quota: it ended: no device"},
		{"CPUs", "true", "", hybrid.MaxLimit, ErrTooSmall, "too few CPUs for case quota"},
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

// TestStressorEnds: a run fails if its stressor ends early, because the application then ran alone.
func TestStressorEnds(t *testing.T) {
	l := openLab(t)
	i := isolationOf(t, []Case{CaseGroups}, "cpu")
	proceed, ended := filepath.Join(t.TempDir(), "proceed"), filepath.Join(t.TempDir(), "ended")
	i.Stressors[0].Command = []string{"sh", "-c", "while [ ! -e " + proceed + " ]; do :; done; echo enough; echo $$ >" + ended}
	wait := "touch " + proceed + "; while [ ! -s " + ended + " ] || kill -0 $(cat " + ended + "); do sleep 0.02; done"
	i.Applications = []NamedWorkload{{Name: "app", Workload: workloadOf(time.Minute, "sh", "-c", wait+" 2>/dev/null")}}
	r := IsolationRun{Stressor: 0}
	report, err := i.newReport(l, splitOf(2, 0))
	if err == nil {
		err = l.openScratch(i.Tmp, 1)
	}
	if err == nil {
		err = l.runIsolation(context.Background(), report, i.Applications[0].Workload, &r)
	}
	if err != nil || r.Failure != "the stressor ended first: enough" || r.Time != 0 {
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
		{"too many runs", func(i *Isolation) { i.Rounds = MaxRuns }, ErrBadWorkload},
		{"number of runs overflows", func(i *Isolation) { i.Rounds = 1 << 62 }, ErrBadWorkload},
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

// TestStressors: the stressors have the arguments of the study, scaled to the machine, and write to the given
// directory.
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
		quota, pinned bool // whether the case is possible
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
