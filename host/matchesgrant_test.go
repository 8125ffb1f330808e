package host

import (
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A container can start before its start is recorded only if its cgroup matches its grant.
func TestMatchesGrant(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	a := e.ask(flexible("log", "0.5"), "log1")
	is := func(when string, pid int, want bool) {
		t.Helper()
		if got := l.MatchesGrant(&a, pid); got != want {
			t.Errorf("%s: as planned %t, want %t", when, got, want)
		}
	}
	is("unknown", 0, false)
	g, err := l.Admit(ctx, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	is("without a group", 0, false)
	pid, stop := e.process("wait")
	defer stop()
	group := e.tree.Group("log1")
	if err := group.Create(settingsOf(g), pid); err != nil {
		t.Fatal(err)
	}
	is("made", pid, true)
	is("made, of a process that the engine does not name", 0, true)
	is("of another process", 1, false)
	other := a
	other.Engine.Sandbox = "box2"
	if l.MatchesGrant(&other, pid) {
		t.Error("that of another sandbox is as planned")
	}
	if _, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0); err != nil {
		t.Fatal(err)
	}
	is("with fewer CPUs since another came", pid, true)
	has, err := group.Settings()
	if err != nil {
		t.Fatal(err)
	}
	overwritten := has
	overwritten.Quota += 10 * time.Millisecond
	set := func(s cgroup.Settings) {
		t.Helper()
		if err := group.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
	set(overwritten)
	is("overwritten", pid, false)
	set(has)
	is("set back", pid, true)
	heavier := has
	heavier.Weight++
	set(heavier)
	is("with a weight that the runtime has rounded", pid, true)
	held, err := takeLock(ctx, l.store.LockFile(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	is("while an operation goes on", pid, false)
	held.release()
	noted := func(of *Allocation, want int) {
		t.Helper()
		if err := l.RecordRunning(ctx, of, pid); err != nil {
			t.Fatal(err)
		}
		s, err := l.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if g, err := s.Grant("log"); err != nil || g.State != Running || g.Main.PID != want {
			t.Errorf("%v, %+v; want the first process %d", err, g, want)
		}
	}
	noted(&other, 0)
	noted(&a, pid)
	if *e.has("log1") != has.CPUs {
		t.Errorf("noted, it has the CPUs %v", e.has("log1"))
	}
	stop()
	if err := l.RecordRunning(ctx, &a, pid); err != nil {
		t.Errorf("noted when it has ended: %v", err)
	}
	if err := l.Stopped(ctx, a.ID, a.Engine.Cgroup); err != nil {
		t.Fatal(err)
	}
	is("ended", 0, false)
}
