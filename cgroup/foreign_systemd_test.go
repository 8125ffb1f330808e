package cgroup

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
)

// TestUnitUpdate changes the settings of an engine's scope. They survive a reload of systemd, because Candor
// also updates the properties of the unit.
func TestUnitUpdate(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	slice := fmt.Sprintf("candortest%d.slice", os.Getpid())
	tr := treeBelow(t, slice, Systemd)
	a, b := two(t, tr)
	ms := time.Millisecond
	born := Settings{CPUs: a, Quota: 50 * ms, Weight: 1000}
	own, _ := group(t, tr, "web", born, "stubborn")
	engines := tr.EngineGroup("web", "/"+slice+"/"+scopeName("web"))
	has := func() Settings {
		t.Helper()
		s, err := engines.Settings()
		must(t, err)
		return s
	}
	first := has()
	next := Settings{CPUs: b, Quota: 70 * ms, Weight: 2000}
	must(t, engines.Apply(next))
	reload(t, tr)
	if now := has(); now != first {
		t.Fatalf("without an update, systemd leaves %+v, and had %+v: this test has no result", now, first)
	}
	for _, next := range []Settings{next, {CPUs: a, Quota: 10 * ms, Period: 20 * ms, Weight: 300}} {
		must(t, engines.Apply(next))
		must(t, tr.ApplyUnitUpdate([]PendingUnitUpdate{{Group: engines, CPUs: true, Time: true}}))
		same(t, engines, next)
		reload(t, tr)
		same(t, engines, next)
	}
	// systemd keeps whole percents. The file has 12.5 % until systemd rewrites it, even after an update of
	// the CPUs alone.
	between := Settings{CPUs: a, Quota: 12500 * time.Microsecond, Weight: 300}
	must(t, engines.Apply(between))
	must(t, tr.ApplyUnitUpdate([]PendingUnitUpdate{{Group: engines, CPUs: false, Time: true}}))
	same(t, engines, between)
	between.CPUs = a.Union(b)
	must(t, engines.SetCPUs(between.CPUs, cpuset.Set{}))
	must(t, tr.ApplyUnitUpdate([]PendingUnitUpdate{{Group: engines, CPUs: true, Time: false}}))
	must(t, tr.bus.flush())
	same(t, engines, between)
	reload(t, tr)
	between.Quota = 13 * ms
	same(t, engines, between)

	exact := between
	exact.Quota, exact.Weight = 12500*time.Microsecond, 304
	if u := engines.PendingUnitUpdate(between, exact); u.CPUs || u.Time {
		t.Errorf("no property of the unit has changed, but its update is %+v", u)
	}
	exact.Quota = 20 * ms
	if u := engines.PendingUnitUpdate(between, exact); u.CPUs || !u.Time {
		t.Errorf("another quota: its update is %+v", u)
	}

	must(t, own.Kill(syscall.SIGKILL))
	must(t, own.Remove())
	if err := tr.ApplyUnitUpdate([]PendingUnitUpdate{{Group: engines, CPUs: true, Time: true}}); err != nil {
		t.Errorf("update of a removed scope: %v", err)
	}
}

// TestUnitUpdateOfSlice: the file of a pod's slice has the exact quota, until a reload of systemd rounds it.
func TestUnitUpdateOfSlice(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	slice := fmt.Sprintf("candortest%d.slice", os.Getpid())
	tr := treeBelow(t, slice, Systemd)
	a, _ := two(t, tr)
	own, _ := group(t, tr, "web", Settings{CPUs: a}, "stubborn") // systemd makes the slice for the scope
	pod := tr.EngineGroup("pod", "/"+slice)
	for _, want := range []CPULimits{{Quota: 12500 * time.Microsecond, Weight: 7}, {Weight: 39}} {
		want.Period = bandwidth.DefaultPeriod
		must(t, pod.SetCPULimits(want))
		if has, err := pod.CPULimits(); err != nil || has != want {
			t.Errorf("the slice has %+v, %v; want %+v", has, err, want)
		}
		reload(t, tr)
		if want.Quota == 12500*time.Microsecond {
			want.Quota = 13 * time.Millisecond
		}
		if has, err := pod.CPULimits(); err != nil || has != want {
			t.Errorf("after a reload the slice has %+v, %v; want %+v", has, err, want)
		}
	}
	must(t, own.Kill(syscall.SIGKILL))
	must(t, own.Remove())
}
