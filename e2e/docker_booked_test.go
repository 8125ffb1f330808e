package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/engine/oci"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// A container that is booked for another host is that one's, and has what the booking says, also under an engine whose groups systemd
// makes. What it has used is told when it is deleted.
func TestDockerBooked(t *testing.T) {
	w := newWrapped(t)
	dir := fmt.Sprintf("/run/candor-e2e-%d", os.Getpid())
	b := oci.Booking{
		StateDir: dir, Config: filepath.Join(dir, "host.json"), Parent: w.parent + "-booked",
		Request: hybrid.Request{ID: "a", Class: hybrid.Sensitive, Limit: 500},
		Spec:    host.Spec{Period: cgroup.DefaultPeriod, View: host.ViewAffinity, OnResize: "none"},
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: b.Parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
		os.RemoveAll(oci.Bookings(dir))
	})
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	w.writeConfig(100000, func(s spec) {
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
	if err := b.Reload(); err != nil || !b.Taken || b.Usage.CPU == 0 {
		t.Errorf("%+v, %v; want that it was taken, and what it used", b, err)
	}
	if is, err := tree.Group("a").Exists(); is || err != nil {
		t.Errorf("its group is left (%v)", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "kept", "*")); len(left) > 0 {
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
