package host

import (
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// TestStuckBelowPodGroup: a pod's cgroup that lacks CPUs keeps its container on its current CPUs. No other
// container is refused because of that. A container that would prefer these CPUs gets other CPUs.
func TestStuckBelowPodGroup(t *testing.T) {
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
		if err := l.ConfirmStart(ctx, log, 0); err != nil {
			t.Errorf("confirm start: %v", err)
		}
		if d := l.Degraded(); len(d) != 1 || d[0].Container != "log" || d[0].Setting != SettingCPUs {
			t.Errorf("degraded: %+v; log: %s", d, l.log)
		}
		web, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0) // its first choice is the lowest CPU
		if err != nil || web.CPUs.Overlaps(&only) || web.CPUs.Count() != 1 {
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
