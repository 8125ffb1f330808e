package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// An engine creates cgroups beside Candor's, as containerd does.
type engine struct {
	*lab
	tree *cgroup.Tree // the pods' cgroups; Candor's paths are names in this tree
	base string
}

func newEngine(l *lab) *engine { return newEngineIn(l, l.parent+"-pods") }

func newEngineIn(l *lab, base string) *engine {
	l.Helper()
	tree, err := cgroup.Open(cgroup.Options{Parent: base + "/pod1", Driver: cgroup.Cgroupfs})
	if err != nil {
		l.Fatal(err)
	}
	e := &engine{l, tree, base}
	l.Cleanup(func() {
		names, _ := tree.Groups()
		for _, name := range names {
			tree.Group(name).End()
		}
		e.removePod()
		above, _ := cgroup.Open(cgroup.Options{Parent: base, Driver: cgroup.Cgroupfs})
		if err := above.Remove(); err != nil {
			l.Error(err)
		}
	})
	return e
}

func (e *engine) removePod() {
	if err := e.tree.Remove(); err != nil {
		e.Error(err)
	}
}

// ask returns the allocation that a plugin requests for a cgroup.
func (e *engine) ask(a Allocation, group string) Allocation {
	a.Engine = Engine{Cgroup: e.base + "/pod1/" + group, Pod: "uid1", Sandbox: "box1", Name: "default/pod1/" + a.ID}
	a.Deadline = time.Minute
	return a
}

// run creates a cgroup with these settings, as a runtime does, and starts a program in it.
func (e *engine) run(group string, has cgroup.Settings) (stop func()) {
	e.Helper()
	return e.play(group, has, "wait")
}

// play is run for a role of this binary.
func (e *engine) play(group string, has cgroup.Settings, role string) (stop func()) {
	e.Helper()
	pid, stop := e.process(role)
	e.Cleanup(stop)
	if err := e.tree.Group(group).Create(has, pid); err != nil {
		e.Fatal(err)
	}
	return stop
}

// process starts this binary in a role.
func (e *engine) process(role string) (pid int, stop func()) {
	e.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HOST_TEST_ROLE="+role)
	in, err := cmd.StdinPipe() // ends with the test, and the program with it
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		e.Fatal(err)
	}
	return cmd.Process.Pid, func() { in.Close(); cmd.Wait() }
}

func settingsOf(g *Grant) cgroup.Settings {
	return cgroup.Settings{CPUs: g.CPUs, Quota: quotaOf(g), Period: g.Period, Weight: int(g.Weight)}
}

func (e *engine) has(group string) *cpuset.Set {
	e.Helper()
	s, err := e.tree.Group(group).Settings()
	if err != nil {
		e.Fatal(err)
	}
	return &s.CPUs
}

func (e *engine) state(name string) state.Phase {
	e.Helper()
	s, err := e.Snapshot()
	if err != nil {
		e.Fatal(err)
	}
	g, err := s.Grant(name)
	if err != nil {
		return "none"
	}
	return g.State
}

// The life of a container: other containers leave its CPUs before it starts, it keeps its CPUs through a restart, and
// the end of the pod frees them.
func TestEngineLife(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	e := newEngine(l)
	log, err := l.Admit(ctx, e.ask(flexible("log", "0"), "log1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run("log1", settingsOf(log))
	web, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if has := e.has("log1"); has.Count() != len(cpus)-1 || has.Overlaps(&web.CPUs) {
		t.Errorf("before web starts, log has %v beside %v", has, web.CPUs)
	}
	stop := e.run("web1", settingsOf(web))
	l.nudge()
	if s := e.state("web"); s != Running {
		t.Errorf("web is %v", s)
	}
	stop()
	if err := l.Stopped(ctx, "web", web.Engine.Cgroup); err != nil {
		t.Fatal(err)
	}
	if s := e.state("web"); s != Held || e.has("log1").Overlaps(&web.CPUs) {
		t.Errorf("stopped, web is %v and log has %v", s, e.has("log1"))
	}
	again, err := l.Admit(ctx, e.ask(ask("web", "1"), "web2"), 0)
	if err != nil || again.CPUs != web.CPUs {
		t.Errorf("restarted on %v, %v; had %v", again, err, web.CPUs)
	}
	if err := l.EndSandbox(ctx, "uid1", "box1"); err != nil {
		t.Fatal(err)
	}
	if s := e.state("web"); s != "none" || e.has("log1").Count() != len(cpus) {
		t.Errorf("after the pod's end web is %v, log has %v", s, e.has("log1"))
	}
}

// TestEngineInitContainer: an init container and its successor count once. The CPUs of the other containers
// of the pod remain held.
func TestEngineInitContainer(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	for i, name := range []string{"init", "web"} {
		g, err := l.Admit(ctx, e.ask(ask(name, "2"), name), 2000)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		stop := e.run(name, settingsOf(g))
		l.nudge()
		stop()
		l.nudge()
		if s := e.state(name); s != Held {
			t.Fatalf("%s is %v", name, s)
		}
	}
	if s := e.state("init"); s != "none" {
		t.Errorf("init is %v", s)
	}
	// The admission is refused, and the held CPUs remain held.
	var refusal *hybrid.Refusal
	if _, err := l.Admit(ctx, e.ask(ask("big", "1000"), "big"), 1); !errors.As(err, &refusal) {
		t.Errorf("big: %v", err)
	}
	if s := e.state("web"); s != Held {
		t.Errorf("after a refusal web is %v", s)
	}
}

// The pod's cgroup is removed without an event.
func TestEnginePodGone(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	g, err := l.Admit(ctx, e.ask(ask("web", "1"), "web"), 0)
	if err != nil {
		t.Fatal(err)
	}
	stop := e.run("web", settingsOf(g))
	l.nudge()
	stop()
	l.nudge()
	if s := e.state("web"); s != Held {
		t.Fatalf("web is %v", s)
	}
	e.tree.Group("web").Remove()
	e.removePod()
	l.nudge()
	if s := e.state("web"); s != "none" {
		t.Errorf("web is %v", s)
	}
}

// If the state is lost, the saved requests name the running containers. If the requests are lost too, the engine names
// them.
func TestEngineAdoption(t *testing.T) {
	for _, lost := range []string{"state.json", ""} {
		t.Run("lost "+lost, func(t *testing.T) {
			l := newLab(t)
			l.needCPUs(2)
			e := newEngine(l)
			asked := e.ask(ask("web", "1"), "web")
			web, err := l.Admit(ctx, asked, 0)
			if err != nil {
				t.Fatal(err)
			}
			e.run("web", settingsOf(web))
			l.nudge()
			if err := os.RemoveAll(filepath.Join(l.store.Dir, lost)); err != nil {
				t.Fatal(err)
			}
			late := e.ask(flexible("late", "0"), "late")
			all, _, _ := l.Host.tree.Effective()
			e.run("late", cgroup.Settings{CPUs: all}) // started while no plugin ran
			if err := l.Sync(ctx, []Allocation{late, asked}, []string{"box1"}); err != nil {
				t.Fatal(err)
			}
			if *e.has("web") != web.CPUs || e.has("late").Overlaps(&web.CPUs) {
				t.Errorf("web had %v and has %v; late has %v", web.CPUs, e.has("web"), e.has("late"))
			}
			if err := l.Sync(ctx, nil, nil); err != nil {
				t.Fatal(err)
			}
			if s := e.state("web"); s != Running {
				t.Errorf("its pod is gone, its process not: web is %v", s)
			}
		})
	}
}

// If a pod's cgroup allows less than a container's grant, the other containers are still repaired.
func TestEngineQuotaAbovePods(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	web, err := l.Admit(ctx, e.ask(ask("web", "0.5"), "web"), 0)
	if err != nil {
		t.Fatal(err)
	}
	less := settingsOf(web)
	less.Quota = 20 * time.Millisecond
	e.run("web", less)
	above, err := cgroup.Open(cgroup.Options{Parent: e.base, Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	pod := above.Group("pod1")
	has, err := pod.Settings()
	if err != nil {
		t.Fatal(err)
	}
	has.Quota = less.Quota
	if err := pod.Apply(has); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	log := e.ask(flexible("log", "0"), "log")
	if _, err := l.Admit(ctx, log, 0); err != nil {
		t.Fatal(err)
	}
	// The engine reports the container to Candor.
	now := e.ask(ask("web", "0.2"), "web")
	if err := l.Sync(ctx, []Allocation{now}, []string{"box1"}); err != nil {
		t.Fatal(err)
	}
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if g, err := s.Grant("web"); err != nil || g.Limit != 200 {
		t.Errorf("%+v, %v", g, err)
	}
	if got, _ := e.tree.Group("web").Settings(); got.Quota != less.Quota || got.CPUs != web.CPUs {
		t.Errorf("web has %+v", got)
	}
}
