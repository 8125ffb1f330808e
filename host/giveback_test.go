package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
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
func (l *lab) givenBack(name string) (s cgroup.CPUSettings, isWide bool) {
	l.Helper()
	s, err := l.tree.Group(name).CPUSettings()
	if err != nil {
		l.Fatal(err)
	}
	cpus, mems, err := l.tree.Group(name).IsConfined()
	if err != nil {
		l.Fatal(err)
	}
	return s, !cpus && !mems
}

// giveBack runs an attempt of a GiveBack. The error contains the reasons of containers that wait.
func (l *lab) giveBack(dry bool) ([]SettingChange, error) {
	l.Helper()
	b, err := l.StartGiveBack(dry)
	if err != nil {
		l.Fatal(err)
	}
	defer b.Close()
	result, err := b.Try(ctx)
	return result.Changes, errors.Join(err, result.Waiting)
}

// isPlain fails unless a program of candor run has the given quota, the default weight and all CPUs.
func (l *lab) isPlain(name string, quota time.Duration) {
	l.Helper()
	s, isWide := l.givenBack(name)
	want := cgroup.CPULimits{Quota: quota, Period: 100 * time.Millisecond, Weight: l.tree.RuntimeWeight(0, "")}
	if !isWide || s.CPULimits != want || s.Burst != 0 {
		l.Errorf("%s has %+v (CPUs of the parent %v), want %+v", name, s, isWide, want)
	}
}

// isRemoved fails if the state directory exists.
func (l *lab) isRemoved() {
	l.Helper()
	if _, err := os.Stat(l.store.Dir); !os.IsNotExist(err) {
		l.Errorf("the state directory: %v", err)
	}
}

// TestGiveBack: programs of candor run go on with all CPUs, their limit as a quota and the default weight; a dry run
// lists the same changes and makes none; the state is removed.
func TestGiveBack(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	log := l.must(flexible("log", "0.5"), "wait")
	planned, err := l.giveBack(true)
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
	changes, err := l.giveBack(false)
	if err != nil || !slices.Equal(changes, planned) {
		t.Errorf("%v: changed\n%v\nplanned\n%v", err, changes, planned)
	}
	l.isPlain("web", 100*time.Millisecond)
	l.isPlain("log", 50*time.Millisecond)
	if !web.Main.Alive() || !log.Main.Alive() {
		t.Error("a program has ended")
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
	l.isRemoved()
	if again, err := l.giveBack(false); err != nil || len(again) != 0 {
		t.Errorf("again: %v, %v", again, err)
	}
}

// TestEndAfterGiveBack: a program that ends after a GiveBack has its cgroup removed, by its candor run process or the hook
// of its runtime. Both make no state.
func TestEndAfterGiveBack(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web, log := l.must(ask("web", "1"), "wait"), l.must(flexible("log", "0.5"), "wait")
	if _, err := l.giveBack(false); err != nil {
		t.Fatal(err)
	}
	log.stop()
	if err := l.ReleaseOwn(ctx, "log", true); err != nil {
		t.Error(err)
	}
	if names, err := l.tree.Groups(); err != nil || !slices.Equal(names, []string{"web"}) {
		t.Errorf("groups %v, %v", names, err)
	}
	l.isRemoved()
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
	l.nudge() // finds the cgroups
	if _, err := l.giveBack(false); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]struct {
		quota  time.Duration
		shares int64
	}{
		"log1": {50 * time.Millisecond, 256}, "web1": {100 * time.Millisecond, 1024}, "odd1": {12345 * time.Microsecond, 125},
	} {
		g := e.tree.Group(group)
		s, err := g.CPUSettings()
		cpus, mems, err2 := g.IsConfined()
		weight := l.tree.RuntimeWeight(want.shares, cgroup.LinearWeights)
		if err != nil || err2 != nil || s.Quota != want.quota || s.Weight != weight || cpus || mems {
			t.Errorf("%s has %+v, confined %v %v, %v, %v; want %v and weight %d", group, s, cpus, mems, err, err2, want, weight)
		}
	}
	l.isRemoved()
}

func (l *lab) mustAdmit(a Allocation) *Grant {
	l.Helper()
	g, err := l.Admit(ctx, a, 0)
	if err != nil {
		l.Fatal(err)
	}
	return g
}
