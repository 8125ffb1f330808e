package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// limitGroup sets the quota of a group, per 100 ms.
func limitGroup(l *lab, path string, quota time.Duration) {
	l.Helper()
	g := l.tree.EngineGroup("limited", path)
	now, err := g.CPULimits()
	if err == nil {
		now.Quota = quota
		err = g.SetCPULimits(now)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// limitedLab returns a lab whose parent group has this quota per 100 ms.
func limitedLab(t *testing.T, quota time.Duration) *lab {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("first", "0.1"), "wait").stop()
	if err := l.Release(ctx, "first", false); err != nil {
		t.Fatal(err)
	}
	limitGroup(l, l.parent, quota)
	return l
}

// refusedFor checks that a request was refused with a one-line error because of a cgroup's quota.
func refusedFor(t *testing.T, when string, err error, group string, parts ...string) {
	t.Helper()
	var refusal *hybrid.Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, hybrid.ErrNoCapacity) {
		t.Errorf("%s: %v, want a refusal", when, err)
		return
	}
	for _, part := range append(parts, "group "+group, "raise") {
		if !strings.Contains(refusal.Text, part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q in it", when, err, part)
		}
	}
}

// The quota of a cgroup above limits the capacity of all containers below it.
func TestBound(t *testing.T) {
	l := limitedLab(t, 100*time.Millisecond)
	_, err := l.start(ask("web", "2"), "wait")
	refusedFor(t, "2 CPUs of 1", err, l.parent, "needs 2 CPUs", "quota of 1 CPU (left: 1 CPU)")
	if names, err := l.tree.Groups(); err != nil || len(names) > 0 {
		t.Errorf("after a refusal there are %v, %v", names, err)
	}
	l.must(ask("web", "0.5"), "wait")
	_, err = l.start(ask("db", "0.6"), "wait")
	refusedFor(t, "600m beside 500m", err, l.parent, "left: 500m")
	db := l.must(ask("db", "0.4"), "wait")
	_, _, err = l.Resize(ctx, "db", 501, 0)
	refusedFor(t, "resize to 501m beside 500m", err, l.parent, "needs 501m", "left: 500m")
	l.check("web", "db")
	for _, limit := range []hybrid.Milli{500, 300} {
		if _, _, err := l.Resize(ctx, "db", limit, 0); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(l.log.String(), "group above") {
		t.Errorf("warns of containers that fit:\n%s", l.log)
	}
	l.must(flexible("log", "0.3"), "wait")
	if n := strings.Count(l.log.String(), "below a cgroup can use more than its quota"); n != 1 || !strings.Contains(l.log.String(), `quota="1 CPU" "can use"=1100m`) {
		t.Errorf("%d warnings:\n%s", n, l.log)
	}
	db.stop()
	if err := l.Release(ctx, "db", false); err != nil {
		t.Fatal(err)
	}
	_, err = l.start(ask("db", "0.3"), "wait")
	refusedFor(t, "beside the guarantee of a flexible container", err, l.parent, "left: 200m")
	limitGroup(l, l.parent, (1<<44-1)*time.Microsecond) // the largest quota that Linux accepts
	if limits, err := l.limits(); err != nil || len(limits) > 0 {
		t.Errorf("the largest quota limits: %+v, %v", limits, err)
	}
	if _, _, err := l.Resize(ctx, "web", 501, 0); err != nil {
		t.Errorf("under the largest quota: %v", err)
	}
	limitGroup(l, l.parent, 60*time.Millisecond)
	if _, _, err := l.Resize(ctx, "web", 400, 0); err != nil {
		t.Errorf("a resize to less, which is still more than is left: %v", err)
	}
	lax := ask("lax", "0.6")
	lax.Policy = hybrid.BestEffort
	l.must(lax, "wait")
	limits, err := l.limits()
	want := []GroupLimit{{l.parent, 600, []string{"web", "log", "lax"}}}
	if err != nil || len(limits) != 1 || limits[0].Group != want[0].Group || limits[0].Limit != want[0].Limit || !slices.Equal(limits[0].Containers, want[0].Containers) {
		t.Errorf("limits %+v, %v; want %+v", limits, err, want)
	}
}

// limits returns the limits that inspect and map show.
func (l *lab) limits() ([]GroupLimit, error) {
	s, err := l.Snapshot()
	if err != nil {
		return nil, err
	}
	return l.GroupLimits(s)
}

// Cgroup v1 refuses a quota above the quota of a parent. Candor refuses it first, and accepts it on v2.
func TestBoundOfQuota(t *testing.T) {
	l := limitedLab(t, 100*time.Millisecond)
	lax, batch := ask("lax", "1.5"), flexible("batch", "1.5")
	lax.Policy = hybrid.BestEffort
	for _, a := range []Allocation{lax, batch} {
		n, err := l.start(a, "wait")
		if l.tree.Version() == 1 {
			refusedFor(t, a.ID, err, l.parent, "needs a quota of 1500m", "cgroup v1")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", a.ID, err)
			continue
		}
		n.stop()
		if err := l.Release(ctx, a.ID, false); err != nil {
			t.Fatal(err)
		}
	}
	whole := ask("whole", "2")
	whole.Policy = hybrid.BestEffort
	l.must(whole, "wait")
	_, _, err := l.Resize(ctx, "whole", 1500, 0)
	if l.tree.Version() == 1 {
		refusedFor(t, "a resize that needs a quota", err, l.parent, "cgroup v1")
		if has, err := l.tree.Group("whole").Settings(); err != nil || has.Quota != 0 || has.CPUs.Count() != 2 {
			t.Errorf("a refused resize leaves %+v, %v", has, err)
		}
	} else if err != nil {
		t.Error(err)
	}
	l.check("whole")
	if !strings.Contains(l.log.String(), `can use"="2 CPUs"`) {
		t.Errorf("no warning of 2 CPUs:\n%s", l.log)
	}
}

// A pod's own cgroup belongs to the kubelet. The cgroups above it limit the containers below them only.
func TestBoundOfPods(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	p := newPod(newEngine(l), 300, 300)
	web := p.ask(ask("web", "0.4"), "crio-a1") // above the pod's limit, which the kubelet may raise later
	if _, err := p.Admit(ctx, web, 0); err != nil {
		t.Fatalf("the pod's own quota counts: %v", err)
	}
	l.must(ask("outside", "0.1"), "wait")
	limitGroup(l, p.base, 100*time.Millisecond)
	if _, err := p.Admit(ctx, p.ask(ask("db", "0.6"), "crio-b2"), 0); err != nil {
		t.Errorf("a container that fits: %v", err)
	}
	_, err := p.Admit(ctx, p.ask(ask("cache", "0.1"), "crio-c3"), 0)
	refusedFor(t, "beyond the quota of the pods' group", err, p.base, "left: 0")
	limits, err := l.limits()
	if err != nil || len(limits) != 1 || limits[0].Group != p.base || !slices.Equal(limits[0].Containers, []string{"web", "db"}) {
		t.Errorf("limits %+v, %v", limits, err)
	}
	if _, _, err := l.Resize(ctx, "db", 700, 0); err == nil {
		t.Error("a resize beyond the quota of the pods' group was taken")
	}
}

// All cgroups above the container of an engine without pods limit it.
func TestBoundOfEngine(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	stop := e.run("other", cgroup.Settings{CPUs: mustUsable(l)})
	defer stop()
	limitGroup(l, e.base+"/pod1", 50*time.Millisecond)
	a := e.ask(ask("web", "0.6"), "ctr")
	a.Engine.Pod = ""
	_, err := l.Admit(ctx, a, 0)
	refusedFor(t, "in a limited group", err, e.base+"/pod1", "quota of 500m")
	a.Limit = 500
	if _, err := l.Admit(ctx, a, 0); err != nil {
		t.Error(err)
	}
}

// A run that fails after the creation of its cgroup leaves neither the cgroup nor Candor's parent cgroup.
func TestFailedAllocation(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	if err := os.MkdirAll(filepath.Join(l.store.Dir, "views"), 0o755); err != nil {
		t.Fatal(err)
	}
	fail := func(name string) {
		t.Helper()
		file := filepath.Join(l.store.Dir, "views", name) // the path of the view's directory
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(file)
		if _, err := l.start(ask(name, "0.5"), "wait"); err == nil || !strings.Contains(err.Error(), "view of "+name) {
			t.Errorf("%s without a view: %v", name, err)
		}
	}
	fail("web")
	if is, err := l.tree.EngineGroup("parent", l.parent).Exists(); is || err != nil {
		t.Errorf("Candor's parent is left: %v, %v", is, err)
	}
	l.must(ask("web", "1"), "wait")
	fail("log")
	l.check("web")
}

func mustUsable(l *lab) cpuset.Set {
	l.Helper()
	cpus, _, err := l.tree.Effective()
	if err != nil {
		l.Fatal(err)
	}
	return cpus
}
