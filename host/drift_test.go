package host

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Foreign writes to a cgroup are reset.
func TestEngineDrift(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	e := newEngine(l)
	web, err := l.Admit(ctx, e.ask(ask("web", "1"), "web"), 0)
	if err != nil {
		t.Fatal(err)
	}
	wide := settingsOf(web)
	for _, cpu := range cpus {
		wide.CPUs.Add(cpu)
	}
	e.run("web", wide)
	l.nudge()
	if has := *e.has("web"); has != web.CPUs || !strings.Contains(l.log.String(), "reset CPUs") {
		t.Errorf("web has %v, granted %v; log: %s", has, web.CPUs, l.log)
	}
	l.log.Reset()
	narrow := settingsOf(web)
	narrow.Quota = 20 * time.Millisecond
	if err := e.tree.Group("web").Apply(narrow); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	if has, err := e.tree.Group("web").Settings(); err != nil || has.Quota != 0 || strings.Count(l.log.String(), "reset settings") != 1 {
		t.Errorf("web has %+v, %v; log: %s", has, err, l.log)
	}
	if l.nudge(); strings.Count(l.log.String(), "reset settings") != 1 {
		t.Errorf("logged again: %s", l.log)
	}
	// The engine's own writes are not reported as drift.
	if err := e.tree.Group("web").Apply(narrow); err != nil {
		t.Fatal(err)
	}
	if err := l.ReapplyAfterEngineWrite(ctx, "web"); err != nil || strings.Count(l.log.String(), "reset settings") != 1 {
		t.Errorf("%v; log: %s", err, l.log)
	}
	for _, kill := range []bool{true, false} {
		if err := l.Release(ctx, "web", kill); !errors.Is(err, ErrEngineOwned) || !errors.Is(err, ErrPopulated) {
			t.Errorf("release of an engine's container, kill %v: %v", kill, err)
		}
	}
}
