package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// A pod's group that has not all CPUs holds nobody else up, but for who would get the CPU that its
// container cannot leave.
func TestLeftBehind(t *testing.T) {
	for _, first := range []bool{false, true} {
		l := newLab(t)
		cpus := l.needCPUs(2)
		e := newEngine(l)
		only := cpuset.Of(cpus[len(cpus)-1])
		if first {
			only = cpuset.Of(cpus[0])
		}
		e.run("log1", cgroup.Settings{CPUs: only})
		above, err := cgroup.Open(cgroup.Options{Parent: e.base, Driver: cgroup.Cgroupfs})
		if err != nil {
			t.Fatal(err)
		}
		if err := above.Group("pod1").SetCPUs(only, cpuset.Set{}); err != nil {
			t.Fatal(err)
		}
		log := e.ask(flexible("log", "0"), "log1")
		if _, err := l.Admit(ctx, log, 0); err != nil {
			t.Fatal(err)
		}
		if err := l.Begin(ctx, log, 0); err != nil || !strings.Contains(l.log.String(), "level=ERROR") {
			t.Errorf("begin: %v; log: %s", err, l.log)
		}
		web, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0) // it gets the lowest CPU
		if first != errors.Is(err, cgroup.ErrUnavailable) || !first && (err != nil || web.CPUs.Overlaps(&only)) {
			t.Errorf("only on %v: %v, %v", only, web, err)
		}
		if has := *e.has("log1"); has != only {
			t.Errorf("log has %v, and can have %v only", has, only)
		}
		if _, err := l.Admit(ctx, e.ask(flexible("other", "0"), "other1"), 0); err != nil {
			t.Errorf("another: %v", err)
		}
		if err := l.Reconcile(ctx); err != nil {
			t.Errorf("repair: %v", err)
		}
	}
}
