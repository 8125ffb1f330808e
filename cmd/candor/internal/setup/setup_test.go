package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

func apply(t *testing.T, s *Setup, keep string) Result {
	t.Helper()
	r, err := s.Apply(cpuset.MustParse(keep))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMainJob: strangers, old and new, stay on the reserved CPUs, a container does not get these, and undo leaves no trace.
func TestMainJob(t *testing.T) {
	needGuest(t)
	s := open(t)
	pid := stranger(t)
	everywhere, before := affinity(t, pid), confined(t, s)

	planned, err := s.Plan(cpuset.MustParse("0-1"))
	if err != nil {
		t.Fatal(err)
	}
	sameConfined(t, "a dry run", s, before)
	done := apply(t, s, "0-1")
	if !planned.DryRun || done.DryRun || len(done.Changes) < 2 || !slices.Equal(planned.Changes, done.Changes) {
		t.Errorf("planned %+v\ndone    %+v", planned, done)
	}
	for what, pid := range map[string]int{"a stranger": pid, "the test": 0, "a new one": stranger(t)} {
		if is := affinity(t, pid); is != "0-1" {
			t.Errorf("%s may run on %s, want 0-1", what, is)
		}
	}
	if again := apply(t, s, "0-1"); len(again.Changes) != 0 {
		t.Errorf("a second setup changed %+v", again.Changes)
	}
	end := container(t, s)

	if r := apply(t, s, "0"); affinity(t, pid) != "0" {
		t.Errorf("then a stranger may run on %s, want 0; changes %+v", affinity(t, pid), r.Changes)
	}
	if _, err := s.Undo(false); err != nil {
		t.Fatal(err)
	}
	if is := affinity(t, pid); is != everywhere {
		t.Errorf("after undo a stranger may run on %s, was %s", is, everywhere)
	}
	end()
	sameConfined(t, "undo", s, before)
	if r, err := s.Undo(false); err != nil || len(r.Changes) != 0 || len(r.Notes) != 1 {
		t.Errorf("a second undo: %+v, %v", r, err)
	}
}

// container runs a process on two CPUs that are not reserved, and tries to reserve them.
func container(t *testing.T, s *Setup) (end func()) {
	t.Helper()
	pid := stranger(t)
	g, err := s.Host.Allocate(context.Background(), allocation("web", pid))
	if err != nil {
		t.Fatal(err)
	}
	if is := affinity(t, pid); is != g.CPUs.String() || g.CPUs.Contains(0) || g.CPUs.Contains(1) {
		t.Errorf("the container may run on %s, has %s", is, g.CPUs)
	}
	before := confined(t, s)
	if _, err := s.Apply(g.CPUs); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "web") {
		t.Errorf("reserving %s: error %v, want that they are web's", g.CPUs, err)
	}
	sameConfined(t, "a refusal", s, before)
	return func() {
		if err := s.Host.Release(context.Background(), "web", true); err != nil {
			t.Error(err)
		}
	}
}

func allocation(name string, pid int) host.Allocation {
	return host.Allocation{
		Request: hybrid.Request{ID: name, Limit: 2000, Class: hybrid.Sensitive},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewAffinity, OnResize: "none"},
		PID:     pid,
	}
}

func TestKilledHalfWay(t *testing.T) {
	needGuest(t)
	for done := range 4 {
		s := open(t)
		before := confined(t, s)
		p, err := s.plan(cpuset.MustParse("0"))
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := s.lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.save(p.new); err != nil {
			t.Fatal(err)
		}
		for _, f := range p.fences[:min(done, len(p.fences))] {
			if err := s.Tree.SetConfinement(f, f.After); err != nil {
				t.Fatal(err)
			}
		}
		unlock()
		if _, err := s.Undo(false); err != nil {
			t.Fatal(err)
		}
		s.Tree.Remove()
		sameConfined(t, "undo of the first steps", s, before)
	}
}

func TestFailureIsUndone(t *testing.T) {
	needGuest(t)
	s := open(t)
	before := confined(t, s)
	p, err := s.plan(cpuset.MustParse("0-1"))
	if err != nil {
		t.Fatal(err)
	}
	p.fences = append(p.fences, cgroup.Confinement{Kind: cgroup.ConfineCPUs, At: "/no/such/group", After: "0"})
	unlock, err := s.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.apply(); err == nil || !strings.Contains(err.Error(), "/no/such/group") {
		t.Errorf("error %v, want the one of the last fence", err)
	}
	unlock()
	s.Tree.Remove()
	sameConfined(t, "a failure", s, before)
}

func TestUndoLeavesWhatOthersChanged(t *testing.T) {
	needGuest(t)
	s := open(t)
	r := apply(t, s, "0-1")
	last := r.Changes[len(r.Changes)-1]
	if last.Kind == cgroup.ConfineToPartition {
		last = r.Changes[len(r.Changes)-2]
	}
	other := last
	other.After = "0"
	if err := s.Tree.SetConfinement(other, "0"); err != nil {
		t.Fatal(err)
	}
	undone, err := s.Undo(false)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := s.Tree.ReadConfinement(other); now != "0" || err != nil || !strings.Contains(strings.Join(undone.Notes, "\n"), last.At) {
		t.Errorf("%s is %q (%v), notes %q", last.At, now, err, undone.Notes)
	}
	if err := s.Tree.SetConfinement(last, last.Before); err != nil {
		t.Fatal(err)
	}
}

func TestRefusals(t *testing.T) {
	s := open(t)
	before := confined(t, s)
	for list, want := range map[string]string{"": "must be a list", "1000": "the machine does not have", "0-1023": "the machine does not have"} {
		for name, do := range map[string]func(cpuset.Set) (Result, error){"plan": s.Plan, "apply": s.Apply} {
			if _, err := do(cpuset.MustParse(list)); !errors.Is(err, ErrBadCPUs) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: error %v, want %q", name, list, err, want)
			}
		}
	}
	sameConfined(t, "a refusal", s, before)
}

// TestDryRun checks that a dry run changes nothing, on any machine.
func TestDryRun(t *testing.T) {
	s := open(t)
	before := confined(t, s)
	r, err := s.Plan(cpuset.Of(0))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Changes) < 2 || r.Changes[0].Kind != Reserved || r.Changes[0].After != "0" {
		t.Errorf("changes %+v", r.Changes)
	}
	if undo, err := s.Undo(true); err != nil || len(undo.Changes) != 0 {
		t.Errorf("undo %+v, %v", undo, err)
	}
	sameConfined(t, "a dry run", s, before)
}

func TestBrokenRecord(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "empty",
		`{"version":2}`:                "version 2",
		`{"version":1,"fence":[]}`:     "unknown field",
		`{"version":1,"reserved":"x"}`: `x`,
	} {
		s := &Setup{Config: filepath.Join(t.TempDir(), "host.json")}
		if err := os.WriteFile(s.recordFile(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Undo(false); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.recordFile()) {
			t.Errorf("%q: error %v, want %q and the file", text, err, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"boot":"b","reservedBefore":"","noConfigBefore":true,"reserved":"0-1","fences":[{"kind":"cpuset.cpus","at":"/a","before":"","after":"0"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decode(text)
		if (r == nil) == (err == nil) {
			t.Fatalf("record %v, error %v", r, err)
		}
	})
}
