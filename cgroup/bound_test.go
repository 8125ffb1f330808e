package cgroup

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBound: Bound returns the tightest quota of a group and the groups above it, for any period.
func TestBound(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	both := a.Union(b)
	g, _ := group(t, tr, "pod", Settings{CPUs: both}, "")
	path := tr.parent + "/pod"
	if has, err := tr.Bound(path); err != nil || has != (Bound{}) {
		t.Errorf("without a quota: %+v, %v", has, err)
	}
	must(t, g.Apply(Settings{CPUs: both, Quota: 30 * time.Millisecond, Period: 20 * time.Millisecond}))
	inner := treeBelow(t, path, Cgroupfs)
	group(t, inner, "web", Settings{CPUs: both, Quota: 100 * time.Millisecond}, "")
	group(t, inner, "log", Settings{CPUs: both}, "")
	for name, want := range map[string]Bound{
		"/pod":     {path, 30 * time.Millisecond, 20 * time.Millisecond},
		"/pod/web": {path + "/web", 100 * time.Millisecond, 100 * time.Millisecond},
		"/pod/log": {path, 30 * time.Millisecond, 20 * time.Millisecond},
	} {
		if has, err := tr.Bound(tr.parent + name); err != nil || has != want {
			t.Errorf("%s: %+v, %v; want %+v", name, has, err, want)
		}
	}
	pod := Bound{path, 30 * time.Millisecond, 20 * time.Millisecond}
	for _, c := range []struct {
		of   *Group
		want Bound
	}{{inner.Group("web"), pod}, {inner.Group("log"), pod}, {tr.EngineGroup("log", path+"/log"), pod}, {g, Bound{}}} {
		if has, err := c.of.Above(); err != nil || has != c.want {
			t.Errorf("above %s: %+v, %v; want %+v", c.of.Name(), has, err, c.want)
		}
	}
}

// TestBoundsAbove: BoundsAbove returns the quotas of all groups above, even if neither the group nor its
// parent exists yet.
func TestBoundsAbove(t *testing.T) {
	tr := tree(t)
	_, err := tr.makeParent()
	must(t, err)
	must(t, tr.cpu.setCPU(tr.cpu.parent, cpuState{cfsBandwidth{50000, 100000, 0}, defaultShares}))
	inner, err := Open(Options{Parent: tr.parent + "/not/there", Driver: Cgroupfs})
	must(t, err)
	want := Bound{tr.parent, 50 * time.Millisecond, 100 * time.Millisecond}
	for name, bounds := range map[string]func() ([]Bound, error){
		"group": inner.Group("web").BoundsAbove, "parent": inner.BoundsOfParent, "foreign group": tr.EngineGroup("web", tr.parent+"/web").BoundsAbove,
		"own parent": tr.BoundsOfParent,
	} {
		if has, err := bounds(); err != nil || len(has) != 1 || has[0] != want {
			t.Errorf("%s: %+v, %v; want %+v", name, has, err, want)
		}
	}
	if has, err := tr.EngineGroup("parent", tr.parent).BoundsAbove(); err != nil || len(has) != 0 {
		t.Errorf("above the parent: %+v, %v; want none", has, err)
	}
}

// TestBoundLargest: the largest quota that Linux accepts does not overflow in Tightest and clampTo.
func TestBoundLargest(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	_, err := tr.makeParent()
	must(t, err)
	const largest = 1<<44 - 1 // us: MAX_BW of kernel/sched/sched.h
	must(t, tr.cpu.setCPU(tr.cpu.parent, cpuState{cfsBandwidth{largest, 1000000, 0}, defaultShares}))
	g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 20 * time.Millisecond, Period: time.Second}, "")
	above, err := g.Above()
	if err != nil || above.Quota.Microseconds() != largest {
		t.Fatalf("%+v, %v", above, err)
	}
	small := Bound{"/small", time.Millisecond, time.Second}
	if got := Tightest([]Bound{above, small}); got != small {
		t.Errorf("the tightest is %+v, want %+v", got, small)
	}
	if wide := (cfsBandwidth{quota: noQuota, period: 1000000}).clampTo(above.cfsBandwidth()); wide.quota != largest {
		t.Errorf("clamped to %+v, want a quota of %d", wide, int64(largest))
	}
}

// TestQuotaCause: if cgroup v1 refuses a quota because of the limit of a group above, the error names that
// group.
func TestQuotaCause(t *testing.T) {
	tr := tree(t)
	if tr.cpu.v2 {
		t.Skip("v2 accepts the quota")
	}
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 20 * time.Millisecond}, "")
	must(t, tr.cpu.setCPU(tr.cpu.parent, cpuState{cfsBandwidth{50000, 100000, 0}, defaultShares}))
	more := Settings{CPUs: a, Quota: 60 * time.Millisecond}
	for name, err := range map[string]error{
		"Create": tr.Group("log").Create(more, 0), "Apply": g.Apply(more), "SetQuota": g.SetQuota(60*time.Millisecond, 0),
	} {
		if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "group "+tr.parent+" has") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(tr.cpu.parent + "/log"); !os.IsNotExist(err) {
		t.Errorf("a failed Create leaves its group: %v", err)
	}
}
