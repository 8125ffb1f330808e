package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// TestTopGroup: no container gets a CPU that the pods' cgroup lacks, and Candor logs this once. When the
// pods' cgroup gets the CPU, containers can use it.
func TestTopGroup(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	above, err := cgroup.Open(cgroup.Options{Parent: l.parent + "-kubelet", Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := above.Remove(); err != nil {
			t.Error(err)
		}
	})
	e := newEngineIn(l, l.parent+"-kubelet/kubepods")
	has := cpuset.Of(cpus[1])
	if err := above.Group("kubepods").Create(cgroup.Settings{CPUs: has}, 0); err != nil {
		t.Fatal(err)
	}
	web, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0)
	if err != nil || web.CPUs != has {
		t.Fatalf("%+v, %v; want all of %v", web, err, has)
	}
	e.run("web1", settingsOf(web))
	if _, err := l.Admit(ctx, e.ask(ask("more", "1"), "more1"), 0); !errors.Is(err, hybrid.ErrNoCapacity) {
		t.Errorf("more than the pods' group has: %v", err)
	}
	for range 2 {
		if err := l.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const logged = "CPUs that are missing from the pods' cgroup"
	if n := strings.Count(l.log.String(), logged); n != 1 {
		t.Errorf("logged %d times: %s", n, l.log)
	}
	other := labIn(t, l.store.Dir) // a process without a cache
	if s, err := other.Snapshot(); err != nil || s.Node.Usable() != has {
		t.Errorf("usable: %v, %v", s.Node.Usable(), err)
	}
	if err := above.Group("kubepods").SetCPUs(*l.all(), cpuset.Set{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(l.log.String(), logged); n != 1 || !strings.Contains(l.log.String(), "the pods' cgroup has all CPUs") {
		t.Errorf("logged %d times: %s", n, l.log)
	}
	if more, err := l.Admit(ctx, e.ask(ask("more", "1"), "more1"), 0); err != nil || more.CPUs.Overlaps(&has) {
		t.Errorf("%+v, %v", more, err)
	}
}

func TestTopOf(t *testing.T) {
	for path, want := range map[string]string{
		"/kubepods/pod1/x":           "/kubepods",
		"/kubepods/burstable/pod1/x": "/kubepods",
		"/kubelet/kubepods/pod1/x":   "/kubelet/kubepods",
		"/kubepods.slice/a.slice/x":  "/kubepods.slice",
		"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/x": "/kubelet.slice/kubelet-kubepods.slice",
		"/docker/x":     "",
		"/mykubepods/x": "",
		"/a-kubepods/x": "",
		"":              "",
	} {
		if got := topOf(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
