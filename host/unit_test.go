package host

import (
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// What was given several times is told once, and all of it.
func TestUntold(t *testing.T) {
	u := untold{some: make(chan struct{}, 1)}
	u.add("web", cgroup.Untold{CPUs: true})
	u.add("log", cgroup.Untold{CPUs: true})
	u.add("web", cgroup.Untold{Time: true})
	u.add("app", cgroup.Untold{Time: true})
	if len(u.some) != 1 {
		t.Error("nobody is told that there are some")
	}
	for _, want := range []struct {
		name string
		cgroup.Untold
	}{{"app", cgroup.Untold{Time: true}}, {"log", cgroup.Untold{CPUs: true}}, {"web", cgroup.Untold{CPUs: true, Time: true}}} {
		if name, got, ok := u.take(); !ok || name != want.name || got != want.Untold {
			t.Errorf("%s %+v, %v; want %+v", name, got, ok, want)
		}
	}
	if name, got, ok := u.take(); ok {
		t.Errorf("at last %s %+v", name, got)
	}
}
