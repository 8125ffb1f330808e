package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// all returns the CPUs that cgroups can have.
func (l *lab) all() *cpuset.Set {
	l.Helper()
	all, _, err := l.tree.Effective()
	if err != nil {
		l.Fatal(err)
	}
	return &all
}

// A pod has a new sandbox, and the event of the old sandbox's end arrives late.
func TestOldSandboxEnds(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	if _, err := l.Admit(ctx, e.ask(ask("web", "0.5"), "web1"), 0); err != nil {
		t.Fatal(err)
	}
	log, err := l.Admit(ctx, e.ask(flexible("log", "0.1"), "log1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	stop := e.run("log1", settingsOf(log))
	l.nudge()
	if err := l.EndSandbox(ctx, "uid1", "box0"); err != nil {
		t.Fatal(err)
	}
	if s := e.state("web"); s != Pending {
		t.Errorf("planned for the new sandbox, web is %v", s)
	}
	stop()
	l.nudge()
	if s := e.state("log"); s != Held {
		t.Errorf("stopped for its restart, log is %v", s)
	}
	if err := l.EndSandbox(ctx, "uid1", "box1"); err != nil {
		t.Fatal(err)
	}
	if s := e.state("log"); s != "none" {
		t.Errorf("after its own sandbox log is %v", s)
	}
}

// A pod has a new sandbox, and no event reports the end of the old sandbox.
func TestOldSandboxEndsWithoutEvent(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	old, next := e.ask(flexible("log", "0.1"), "log1"), e.ask(ask("web", "0.5"), "web2")
	next.Engine.Sandbox = "box2"
	log, err := l.Admit(ctx, old, 0)
	if err != nil {
		t.Fatal(err)
	}
	stop := e.run("log1", settingsOf(log))
	l.nudge()
	stop()
	l.nudge()
	if _, err := l.Admit(ctx, next, hybrid.Milli(1000)); err != nil {
		t.Fatal(err)
	}
	if log, web := e.state("log"), e.state("web"); log != Held || web != Pending {
		t.Fatalf("log is %v, web is %v", log, web)
	}
	if err := l.Sync(ctx, nil, []string{"box2"}); err != nil {
		t.Fatal(err)
	}
	if log, web := e.state("log"), e.state("web"); log != "none" || web != Pending {
		t.Errorf("of the old sandbox log is %v, of the new one web is %v", log, web)
	}
}

// A container cannot take the CPUs of a running container of the same name.
func TestAdmitWhileItRuns(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	web, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	stop := e.run("web1", settingsOf(web))
	l.nudge()
	_, err = l.Admit(ctx, e.ask(ask("web", "1"), "web2"), 0)
	if !errors.Is(err, hybrid.ErrIDTaken) || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("a second web: %v", err)
	}
	if s := e.state("web"); s != Running || *e.has("web1") != web.CPUs {
		t.Errorf("the first is %v with %v, had %v", s, e.has("web1"), web.CPUs)
	}
	stop()
	if again, err := l.Admit(ctx, e.ask(ask("web", "1"), "web2"), 0); err != nil || again.CPUs != web.CPUs {
		t.Errorf("after its end: %v, %v", again, err)
	}
}

// A cgroup at another path is reported at once, and not only when the grant's deadline expires.
func TestConfirmStartElsewhere(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	a := e.ask(ask("web", "1"), "web1")
	if _, err := l.Admit(ctx, a, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.ConfirmStart(ctx, a, os.Getpid()); !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), a.Engine.Cgroup) {
		t.Errorf("confirm start: %v", err)
	}
	if err := l.Sync(ctx, []Allocation{a}, []string{"box1"}); err != nil || !strings.Contains(l.log.String(), ErrElsewhere.Error()) {
		t.Errorf("sync: %v; log: %s", err, l.log)
	}
	e.run("web1", cgroup.Settings{CPUs: *l.all()})
	if err := l.ConfirmStart(ctx, a, os.Getpid()); !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), "is not in") {
		t.Errorf("confirm start with a process elsewhere: %v", err)
	}
	if _, _, err := l.ResizeOf(ctx, "web", e.base+"/pod1/web0", 500, 0); !errors.Is(err, hybrid.ErrUnknownID) {
		t.Errorf("resize of its predecessor: %v", err)
	}
}

// A container whose CPUs cannot be granted keeps its quota on other CPUs.
func TestStrayKeepsQuota(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	e := newEngine(l)
	limit := hybrid.Milli(1000*len(cpus) - 200)
	web, err := l.Admit(ctx, e.ask(ask("web", limit.String()), "web1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run("web1", settingsOf(web))
	l.nudge()
	all, _, _ := l.Host.tree.Effective()
	late := cgroup.Settings{CPUs: all, Quota: 50 * time.Millisecond}
	e.run("late1", late)
	if err := l.Sync(ctx, []Allocation{e.ask(ask("late", "0.5"), "late1")}, []string{"box1"}); err != nil {
		t.Fatal(err)
	}
	if has, err := e.tree.Group("late1").Settings(); err != nil || has.Quota != late.Quota {
		t.Errorf("%+v, %v; log: %s", has, err, l.log)
	}
	if !strings.Contains(l.log.String(), "class=flexible") {
		t.Errorf("its class is not logged: %s", l.log)
	}
}

// The state is lost after a resize, and the engine reports the original request.
func TestLostAfterResize(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	asked := e.ask(ask("web", "0.5"), "web1")
	web, err := l.Admit(ctx, asked, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run("web1", settingsOf(web))
	l.nudge()
	if _, _, err := l.Resize(ctx, "web", 900, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(l.store.Dir, "state.json")); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(ctx, []Allocation{asked}, []string{"box1"}); err != nil {
		t.Fatal(err)
	}
	if has, err := e.tree.Group("web1").Settings(); err != nil || has.Quota != 90*time.Millisecond {
		t.Errorf("%+v, %v", has, err)
	}
}
