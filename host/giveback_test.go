package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// TestRequestFromGrant: the engine's request follows from the limit, the guarantee and the period.
func TestRequestFromGrant(t *testing.T) {
	pod, docker := Engine{Cgroup: "/kubepods/pod1/web", Pod: "uid1", Name: "default/web/app"}, Engine{Name: "web"}
	for _, c := range []struct {
		name             string
		engine           Engine
		class            hybrid.Class
		limit, guarantee hybrid.Milli
		period           time.Duration
		want             EngineRequest
	}{
		{"sensitive in a pod", pod, hybrid.Sensitive, 1500, 0, 100 * time.Millisecond, EngineRequest{QuotaUs: 150000, PeriodUs: 100000, Shares: 1536}},
		{"flexible in a pod", pod, hybrid.Flexible, 300, 100, 100 * time.Millisecond, EngineRequest{QuotaUs: 30000, PeriodUs: 100000, Shares: 102}},
		{"without a request", pod, hybrid.Flexible, 0, hybrid.NoGuarantee, 100 * time.Millisecond, EngineRequest{PeriodUs: 100000, Shares: 2}},
		{"of Docker", docker, hybrid.Sensitive, 2000, 0, 50 * time.Millisecond, EngineRequest{QuotaUs: 100000, PeriodUs: 50000}},
		{"of candor run", Engine{}, hybrid.Sensitive, 2000, 0, 100 * time.Millisecond, EngineRequest{QuotaUs: 200000, PeriodUs: 100000}},
	} {
		g := &Grant{Engine: c.engine, Spec: spec.Spec{Period: c.period}}
		g.Request = hybrid.Request{ID: "web", Class: c.class, Limit: c.limit, Guarantee: c.guarantee}
		if got := requestFromGrant(g); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestEngineRequestOf: a stored request counts as far as the grant's limit and guarantee can come from it.
func TestEngineRequestOf(t *testing.T) {
	s := state.NewStore(t.TempDir())
	g := &Grant{Engine: Engine{Name: "web"}, Spec: spec.Spec{Period: 100 * time.Millisecond}}
	g.Request = hybrid.Request{ID: "web", Class: hybrid.Flexible, Limit: 1235}
	stored := EngineRequest{QuotaUs: 123456, PeriodUs: 100000, BurstUs: 7, Shares: 333}
	if err := s.SaveEngineRequest(g, &stored); err != nil {
		t.Fatal(err)
	}
	if got := engineRequestOf(s, g); got != stored {
		t.Errorf("%+v, want the stored %+v", got, stored)
	}
	g.Limit = 2000 // a resize whose request was not stored
	want := EngineRequest{QuotaUs: 200000, PeriodUs: 100000, BurstUs: 7, Shares: 333}
	if got := engineRequestOf(s, g); got != want {
		t.Errorf("after a resize %+v, want %+v", got, want)
	}
	g.Engine = Engine{Pod: "uid1"}
	g.Guarantee = 500
	want.Shares = 512
	if got := engineRequestOf(s, g); got != want {
		t.Errorf("in a pod %+v, want %+v", got, want)
	}
	g.Guarantee = 326 // ceil(333/1.024)
	want.Shares = 333
	if got := engineRequestOf(s, g); got != want {
		t.Errorf("in a pod with these shares %+v, want %+v", got, want)
	}
}

// givenBack returns the settings of a cgroup of the lab, and whether its CPUs are those of the cgroup above.
func (l *lab) givenBack(name string) (s cgroup.EngineSettings, isWide bool) {
	l.Helper()
	s, err := l.tree.Group(name).EngineSettings()
	if err != nil {
		l.Fatal(err)
	}
	cpus, mems, err := l.tree.Group(name).IsConfined()
	if err != nil {
		l.Fatal(err)
	}
	return s, !cpus && !mems
}

// TestGiveBack: programs of candor run go on with all CPUs, their limit as a quota and the default weight; a dry run
// lists the same changes and makes none; the state is removed.
func TestGiveBack(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	log := l.must(flexible("log", "0.5"), "wait")
	planned, err := l.GiveBack(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	if s, isWide := l.givenBack("web"); isWide || s.Quota != 0 {
		t.Errorf("after the dry run, web has %+v", s)
	}
	view, err := os.Open(filepath.Join(l.ViewDir("web"), "online")) // as a bind mount: it outlives the file's name
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	changes, err := l.GiveBack(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(changes, planned) {
		t.Errorf("changed\n%v\nplanned\n%v", changes, planned)
	}
	for _, c := range []struct {
		*tenant
		quota time.Duration
	}{{web, 100 * time.Millisecond}, {log, 50 * time.Millisecond}} {
		s, isWide := l.givenBack(c.ID)
		want := cgroup.CPULimits{Quota: c.quota, Period: 100 * time.Millisecond, Weight: l.tree.RuntimeWeight(0, "")}
		if !isWide || s.CPULimits != want || s.Burst != 0 {
			t.Errorf("%s has %+v (CPUs of the parent %v), want %+v", c.ID, s, isWide, want)
		}
		if !c.Main.Alive() {
			t.Errorf("%s has ended", c.ID)
		}
	}
	machine, err := l.machine.get()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 1000)
	n, _ := view.ReadAt(text, 0)
	if shown, err := cpuset.Parse(trimmed(text[:n])); err != nil || shown != machine.Online {
		t.Errorf("the view shows %q (%v), want %v", text[:n], err, machine.Online)
	}
	if _, err := os.Stat(l.store.Dir); !os.IsNotExist(err) {
		t.Errorf("the state directory: %v", err)
	}
	if again, err := l.GiveBack(ctx, false); err != nil || len(again) != 0 {
		t.Errorf("again: %v, %v", again, err)
	}
	// The candor run process of a program that ends later removes its cgroup, and makes no state.
	log.stop()
	if err := l.ReleaseOwn(ctx, "log", true); err != nil {
		t.Error(err)
	}
	if names, err := l.tree.Groups(); err != nil || !slices.Equal(names, []string{"web"}) {
		t.Errorf("groups %v, %v", names, err)
	}
	if _, err := os.Stat(l.store.Dir); !os.IsNotExist(err) {
		t.Errorf("after the end of log, the state directory: %v", err)
	}
	web.stop()
	if err := l.ReleaseEnded(ctx, "web"); err != nil {
		t.Error(err)
	}
	if exists, err := l.tree.EngineGroup("parent", l.parent).Exists(); err != nil || exists {
		t.Errorf("the parent cgroup exists: %v, %v", exists, err)
	}
}

func trimmed(text []byte) string {
	for len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	return string(text)
}

// TestGiveBackEngine: containers of pods get the quota and the shares of the kubelet, their pod its own quota and weight,
// and an ended container is no error.
func TestGiveBackEngine(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	admit := func(a Allocation, group string, request *EngineRequest) *Grant {
		t.Helper()
		a = e.ask(a, group)
		a.EngineRequest = request
		g, err := l.Admit(ctx, a, 0)
		if err != nil {
			t.Fatal(err)
		}
		e.run(group, settingsOf(g))
		return g
	}
	log := flexible("log", "0.5")
	log.Guarantee = 250
	admit(log, "log1", nil)
	odd := flexible("odd", "0.123")
	admit(odd, "odd1", &EngineRequest{QuotaUs: 12345, PeriodUs: 100000, Shares: 125})
	web := ask("web", "1")
	web.View = spec.ViewAffinity
	admit(web, "web1", &EngineRequest{QuotaUs: 100000, PeriodUs: 100000, Shares: 1024})
	gone := l.mustAdmit(e.ask(flexible("gone", "0.1"), "gone1"))
	stop := e.run("gone1", settingsOf(gone))
	l.nudge()
	stop()
	if err := e.tree.Group("gone1").Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.GiveBack(ctx, false); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]struct {
		quota  time.Duration
		shares int64
	}{
		"log1": {50 * time.Millisecond, 256}, "web1": {100 * time.Millisecond, 1024}, "odd1": {12345 * time.Microsecond, 125},
	} {
		g := e.tree.Group(group)
		s, err := g.EngineSettings()
		cpus, mems, err2 := g.IsConfined()
		weight := l.tree.RuntimeWeight(want.shares, cgroup.LinearWeights)
		if err != nil || err2 != nil || s.Quota != want.quota || s.Weight != weight || cpus || mems {
			t.Errorf("%s has %+v, confined %v %v, %v, %v; want %v and weight %d", group, s, cpus, mems, err, err2, want, weight)
		}
	}
	if _, err := os.Stat(l.store.Dir); !os.IsNotExist(err) {
		t.Errorf("the state directory: %v", err)
	}
}

func (l *lab) mustAdmit(a Allocation) *Grant {
	l.Helper()
	g, err := l.Admit(ctx, a, 0)
	if err != nil {
		l.Fatal(err)
	}
	return g
}

// TestGiveBackStarting: a container whose cgroup its runtime is about to create keeps its record, and the next GiveBack
// completes the work.
func TestGiveBackStarting(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	web := l.mustAdmit(e.ask(flexible("web", "0.5"), "web1"))
	if _, err := l.GiveBack(ctx, false); !errors.Is(err, ErrStarting) {
		t.Errorf("error %v, want %v", err, ErrStarting)
	}
	if s := e.state("web"); s != Pending {
		t.Errorf("web is %v", s)
	}
	e.run("web1", settingsOf(web))
	if changes, err := l.GiveBack(ctx, false); err != nil {
		t.Errorf("%v, %v", changes, err)
	}
	if l.IsInUse() {
		t.Error("the state remains")
	}
}

// TestGiveBackCut: a GiveBack that ends at any write is completed by the next one.
func TestGiveBackCut(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	l.must(flexible("log", "0.5"), "wait")
	for cut := range 2 { // after the first batch: its record is gone, its files remain
		b := &giveBack{Host: l.Host, online: cpuset.Of(0)}
		if err := b.load(); err != nil {
			t.Fatal(err)
		}
		batch := b.batches()[0]
		if err := b.giveBackBatch(batch); err != nil {
			t.Fatal(err)
		}
		if cut == 0 {
			continue // killed before the state is saved
		}
		b.grants = b.grants[1:]
		if err := b.save(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.GiveBack(ctx, false); err != nil {
		t.Fatal(err)
	}
	for name, quota := range map[string]time.Duration{"web": 100 * time.Millisecond, "log": 50 * time.Millisecond} {
		if s, isWide := l.givenBack(name); !isWide || s.Quota != quota {
			t.Errorf("%s has %+v, CPUs of the parent %v", name, s, isWide)
		}
	}
	if l.IsInUse() || !web.Main.Alive() {
		t.Errorf("state in use %v, web alive %v", l.IsInUse(), web.Main.Alive())
	}
}

// TestGiveBackLeased: while a process in the container holds a lease on its view, its record remains.
func TestGiveBackLeased(t *testing.T) {
	l := newLab(t)
	l.must(ask("web", "0.5"), "wait")
	l.views.close("web") // as if the candor run process had ended
	fd, err := unix.Open(filepath.Join(l.ViewDir("web"), "cpuinfo"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.GiveBack(ctx, false); !errors.Is(err, view.ErrLeased) {
		t.Errorf("error %v", err)
	}
	unix.Close(fd)
	if !l.IsInUse() {
		t.Fatal("the state is gone")
	}
	if _, err := l.GiveBack(ctx, false); err != nil || l.IsInUse() {
		t.Errorf("%v, in use %v", err, l.IsInUse())
	}
}

// TestAgentMark: GiveBack is refused while an agent runs.
func TestAgentMark(t *testing.T) {
	l := newLab(t)
	if err := l.CheckNoAgent(); err != nil {
		t.Fatal(err)
	}
	release, err := l.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.CheckNoAgent(); !errors.Is(err, ErrAgentRuns) {
		t.Errorf("beside an agent: %v", err)
	}
	release()
	if err := l.CheckNoAgent(); err != nil {
		t.Errorf("after the agent: %v", err)
	}
}

// TestOperateIfInUse: an operation of a process from the time before GiveBack changes nothing and makes no state.
func TestOperateIfInUse(t *testing.T) {
	l := newLab(t)
	called := false
	isInUse, err := l.operateIfInUse(context.Background(), scope{}, func(*operation) error { called = true; return nil })
	if isInUse || err != nil || called || l.IsInUse() {
		t.Errorf("without a state: in use %v, %v, called %v, state %v", isInUse, err, called, l.IsInUse())
	}
	l.nudge()
	isInUse, err = l.operateIfInUse(context.Background(), scope{}, func(*operation) error { called = true; return nil })
	if !isInUse || err != nil || !called {
		t.Errorf("with a state: in use %v, %v, called %v", isInUse, err, called)
	}
}
