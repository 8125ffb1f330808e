package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
)

// planOnlyHost returns a plan-only host beside the lab's host, with default options.
func (l *lab) planOnlyHost(dir string) *Host {
	l.Helper()
	h := l.planOnlyHostWith(dir)
	if err := h.SetOptions(NodeOptions{}); err != nil {
		l.Fatal(err)
	}
	return h
}

// planOnlyHostWith is planOnlyHost with the existing options. It shares the lab's machine, because reading a
// machine with 32 emulated CPUs takes longer than the rest of the test.
func (l *lab) planOnlyHostWith(dir string) *Host {
	l.Helper()
	if _, err := l.machine.get(); err != nil {
		l.Fatal(err)
	}
	h, err := Open(Options{StateDir: dir, PlanOnly: true, Log: l.Host.log, LockTimeout: time.Minute,
		Cgroup: cgroup.Options{Parent: l.parent + "-none", Driver: cgroup.Cgroupfs}})
	if err != nil {
		l.Fatal(err)
	}
	h.machine.online, h.machine.machine = l.machine.online, l.machine.machine
	return h
}

// Containers that run without Candor are planned, and nothing is applied: not at a start, a resize, an end or a
// repair.
func TestPlanOnly(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	all, _, err := e.tree.Effective()
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]cgroup.Settings{"web1": {CPUs: all, Quota: 100 * time.Millisecond}, "log1": {CPUs: all}}
	for group, settings := range given {
		e.run(group, settings)
		if given[group], err = e.tree.Group(group).Settings(); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "plan")
	h := l.planOnlyHost(dir)
	web, log := e.ask(ask("web", "1"), "web1"), e.ask(flexible("log", "0"), "log1")
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for group, want := range given {
			if has, err := e.tree.Group(group).Settings(); err != nil || has != want {
				t.Errorf("%s: %s has %+v, %v; had %+v", what, group, has, err, want)
			}
		}
	}
	step("sync", h.Sync(ctx, []Allocation{log, web}, []string{"box1"}))
	planned := func(name string) *Grant {
		t.Helper()
		s, err := h.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		g, _ := s.Grant(name)
		return g
	}
	if w, g := planned("web"), planned("log"); w == nil || g == nil || w.Exclusive.Count() != 1 || w.CPUs.Overlaps(&g.CPUs) || w.State != Running {
		t.Fatalf("web %+v, log %+v", w, g)
	}
	_, _, err = h.Resize(ctx, "web", 1500, 0)
	step("resize", err)
	step("repair", h.Reconcile(ctx))
	h = l.planOnlyHost(dir)
	step("sync again", h.Sync(ctx, []Allocation{e.ask(ask("web", "1.5"), "web1"), log}, []string{"box1"}))
	if w := planned("web"); w == nil || w.Limit != 1500 || w.CPUs.Count() != 2 {
		t.Errorf("resized: %+v", w)
	}
	step("end", h.Sync(ctx, nil, nil))
	if g := planned("log"); g != nil && g.Engine.Pod != "" {
		t.Errorf("after its pod: %+v", g)
	}
	if is, err := l.tree.EngineGroup("none", l.parent+"-none").Exists(); is || err != nil {
		t.Errorf("a group was made, %v", err)
	}
	if views, _ := os.ReadDir(filepath.Join(dir, "views")); len(views) > 0 {
		t.Errorf("views: %v", views)
	}
}

// A container that does not fit is logged and gets no grant.
func TestPlanOnlyRefuses(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	all, _, err := e.tree.Effective()
	if err != nil {
		t.Fatal(err)
	}
	e.run("web1", cgroup.Settings{CPUs: all})
	h := l.planOnlyHost(filepath.Join(t.TempDir(), "plan"))
	if err := h.Sync(ctx, []Allocation{e.ask(ask("web", "1000"), "web1")}, []string{"box1"}); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Snapshot(); err != nil || len(s.Grants) > 0 || !strings.Contains(l.log.String(), "would refuse") {
		t.Errorf("%+v, %v; log: %s", s, err, l.log)
	}
}

// A plan cannot be used as a real state, nor a real state as a plan.
func TestPlanOnlySeparateState(t *testing.T) {
	l := newLab(t)
	dir := filepath.Join(t.TempDir(), "plan")
	h := l.planOnlyHost(dir)
	e := newEngine(l)
	if _, err := h.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0); err != nil {
		t.Fatal(err)
	}
	plain, err := Open(Options{StateDir: dir, Cgroup: cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := plain.Snapshot(); err != nil || len(s.Grants) != 1 {
		t.Errorf("to look at it: %+v, %v", s, err)
	}
	_, err = plain.Allocate(ctx, ask("own", "0.5"))
	for _, err := range []error{err, plain.Release(ctx, "web", false), plain.SetOptions(NodeOptions{MinShared: 100}), plain.CheckPlanOnly()} {
		if !errors.Is(err, ErrPlanOnly) || !errors.Is(err, state.ErrBadDir) {
			t.Errorf("to change it: %v", err)
		}
	}
	if _, err := l.Allocate(ctx, ask("web", "0.5")); err != nil {
		t.Fatal(err)
	}
	l.keepsItsState("with a container")
}

// keepsItsState fails if another host can turn the lab's state into a plan or leaves files there.
func (l *lab) keepsItsState(when string) {
	l.Helper()
	_, err := Open(Options{StateDir: l.store.Dir, PlanOnly: true, Cgroup: cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}})
	if !errors.Is(err, state.ErrBadDir) || !strings.Contains(err.Error(), "use another directory") {
		l.Errorf("%s: %v", when, err)
	}
	if l.store.IsPlan() {
		l.Errorf("%s: it is a plan since", when)
	}
	if err := l.Reconcile(ctx); err != nil {
		l.Errorf("%s: %v", when, err)
	}
}

// The state of a running plugin cannot become a plan, even before its first operation.
func TestClaim(t *testing.T) {
	l := newLab(t)
	if err := l.Claim(); err != nil {
		t.Fatal(err)
	}
	l.keepsItsState("claimed")
	l.keepsItsState("after an operation without containers")
}
