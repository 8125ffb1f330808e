package host

import (
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// Several updates of a unit are merged into a single update.
func TestPendingUnits(t *testing.T) {
	u := pendingUnits{ready: make(chan struct{}, 1)}
	u.add("web", cgroup.PendingUnitUpdate{CPUs: true})
	u.add("log", cgroup.PendingUnitUpdate{CPUs: true})
	u.add("web", cgroup.PendingUnitUpdate{Time: true})
	u.add("app", cgroup.PendingUnitUpdate{Time: true})
	if len(u.ready) != 1 {
		t.Error("no signal for the pending updates")
	}
	for _, want := range []struct {
		name string
		cgroup.PendingUnitUpdate
	}{{"app", cgroup.PendingUnitUpdate{Time: true}}, {"log", cgroup.PendingUnitUpdate{CPUs: true}}, {"web", cgroup.PendingUnitUpdate{CPUs: true, Time: true}}} {
		if name, got, ok := u.take(); !ok || name != want.name || got != want.PendingUnitUpdate {
			t.Errorf("%s %+v, %v; want %+v", name, got, ok, want)
		}
	}
	if name, got, ok := u.take(); ok {
		t.Errorf("at last %s %+v", name, got)
	}
}
