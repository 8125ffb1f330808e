package host

import (
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// An operation for a container with exclusive CPUs reads the CPUs of other containers only; Reconcile reads their
// other settings.
func TestScope(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	e := newEngine(l)
	other := e.ask(flexible("log", "0"), "log1")
	other.Engine.Pod = "uid2"
	log, err := l.Admit(ctx, other, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run("log1", settingsOf(log))
	if err := l.ConfirmStart(ctx, other, 0); err != nil {
		t.Fatal(err)
	}
	ask := e.ask(ask("web", "1"), "web1")
	web, err := l.Admit(ctx, ask, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run("web1", settingsOf(web))
	group := e.tree.Group("log1")
	overwrite := func(change func(*cgroup.Settings)) {
		t.Helper()
		s, err := group.Settings()
		if err == nil {
			change(&s)
			err = group.Apply(s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	overwrite(func(s *cgroup.Settings) { s.CPUs = s.CPUs.Union(web.CPUs) })
	if err := l.ConfirmStart(ctx, ask, 0); err != nil {
		t.Fatal(err)
	}
	if has := e.has("log1"); has.Overlaps(&web.CPUs) || has.Count() != len(cpus)-1 {
		t.Errorf("log has %v beside %v", has, web.CPUs)
	}
	overwrite(func(s *cgroup.Settings) { s.Quota = 50 * time.Millisecond })
	quota := func() time.Duration {
		s, err := group.Settings()
		if err != nil {
			t.Fatal(err)
		}
		return s.Quota
	}
	if err := l.ConfirmStart(ctx, ask, 0); err != nil {
		t.Fatal(err)
	}
	if got := quota(); got != 50*time.Millisecond {
		t.Errorf("an operation about web has read all of log, and set its quota to %v", got)
	}
	l.nudge()
	if got := quota(); got != 0 {
		t.Errorf("log has a quota of %v", got)
	}
}

// The fingerprint of a pod is dropped with its last container.
func TestPodFingerprintDropped(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 0, 100)
	stop := p.start(p.ask(flexible("log", "0"), "log-1"), "wait")
	seen := func() bool {
		_, seen := p.podFingerprints.Load(p.base + "/pod1")
		return seen
	}
	if err := p.Reconcile(ctx); err != nil || !seen() {
		t.Errorf("with a container: %v, remembered: %v", err, seen())
	}
	stop()
	if err := p.tree.Group("log-1").Remove(); err != nil {
		t.Fatal(err)
	}
	if err := p.EndSandbox(ctx, "1", "box1"); err != nil || seen() {
		t.Errorf("without: %v, remembered: %v", err, seen())
	}
}
