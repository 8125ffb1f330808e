package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/engine/oci"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// books saves an override for a second host with its own name and groups, which the test removes at its end.
func (w *wrapped) books() (b oci.Override, tree *cgroup.Tree) {
	w.Helper()
	dir := fmt.Sprintf("/run/candor-e2e-%d", os.Getpid())
	b = oci.Override{
		StateDir: dir, Config: filepath.Join(dir, "host.json"), Parent: w.parent + "-booked",
		Request: hybrid.Request{Class: hybrid.Sensitive, Limit: 500},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewAffinity, OnResize: "none"},
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: b.Parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			w.Error(err)
		}
		os.RemoveAll(dir)
		os.RemoveAll(oci.Overrides(dir))
	})
	return b, tree
}

// TestDockerOverride: a container with an override belongs to the host of the override and has its settings, also with
// the engine's systemd driver. Its usage is recorded when the engine deletes it.
func TestDockerOverride(t *testing.T) {
	w := newWrapped(t)
	b, tree := w.books()
	b.Request.ID = "a"
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	w.writeConfig(100000, func(s ociSpec) {
		s.of("linux")["cgroupsPath"] = "system.slice:docker:a"
		s.of("process")["env"] = []string{"PATH=/bin", "CANDOR_CLASS=flexible", "CANDOR_PERIOD=10ms"}
	})
	w.does("--systemd-cgroup", "create", "--bundle", w.dir, "a")
	has, err := tree.Group("a").Settings()
	if err != nil || has.CPUs.Count() != 1 || has.Quota != 50*time.Millisecond || has.Period != 100*time.Millisecond {
		t.Errorf("%+v, %v; want one CPU and the booking's quota", has, err)
	}
	if rows := w.ps(); len(rows) > 0 {
		t.Errorf("it is this host's, too: %v", rows)
	}
	w.does("delete", "--force", "a")
	if err := b.Reload(); err != nil || !b.Applied || b.Usage.CPU == 0 {
		t.Errorf("%+v, %v; want that it was taken, and what it used", b, err)
	}
	if is, err := tree.Group("a").Exists(); is || err != nil {
		t.Errorf("its group is left (%v)", err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.StateDir, "kept", "*")); len(left) > 0 {
		t.Errorf("its place is kept: %v", left)
	}
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
	w.writeConfig(100000)
	w.does("create", "--bundle", w.dir, "a")
	if r := w.ps()["a"]; r.Limit != 1000 {
		t.Errorf("without a booking it is %+v", r)
	}
	w.does("delete", "--force", "a")
	w.empty()
}

// TestDockerOverridesEndTogether: two containers end at the same time. The usage of each is recorded, even if
// the hook of one container finds the end of the other.
func TestDockerOverridesEndTogether(t *testing.T) {
	w := newWrapped(t)
	a, tree := w.books()
	b := a
	a.Request.ID, b.Request.ID = "a", "b"
	for _, booking := range []oci.Override{a, b} {
		if err := booking.Save(); err != nil {
			t.Fatal(err)
		}
		w.does("create", "--bundle", w.dir, booking.Request.ID)
	}
	w.does("kill", "a", "KILL")
	within(t, "its processes have ended", func() bool {
		populated, err := tree.Group("a").Populated()
		return err == nil && !populated
	})
	w.does("delete", "--force", "b")
	if is, err := tree.Group("a").Exists(); is || err != nil {
		t.Errorf("the group of the one that has ended is there still (%v)", err)
	}
	w.does("delete", "--force", "a")
	for _, booking := range []oci.Override{a, b} {
		if err := booking.Reload(); err != nil || !booking.Applied || booking.Usage.CPU == 0 {
			t.Errorf("%+v, %v; want what it has used", booking, err)
		}
	}
}
