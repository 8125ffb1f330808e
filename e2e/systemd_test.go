package e2e

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
)

// newSystemdLab creates a lab whose groups systemd creates. It skips the test on a machine without systemd.
func newSystemdLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	slice := fmt.Sprintf("candor_e2e_%d.slice", os.Getpid())
	tree, err := cgroup.Open(cgroup.Options{Parent: slice, Driver: cgroup.Systemd})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { tree.Close() })
	usable, _, err := tree.Effective()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, state: t.TempDir() + "/state", parent: slice, driver: cgroup.Systemd, tree: tree, usable: usable}
	t.Cleanup(l.clear)
	return l
}

// TestRunWithSystemd: if systemd manages the groups, containers are its scopes.
func TestRunWithSystemd(t *testing.T) {
	l := newSystemdLab(t)
	tree := l.tree
	l.need(4)

	l.start([]string{"--class", "flexible", "--name", "log"}, "sleep")
	n := l.start([]string{"--cpu", "1500m", "--name", "web", "--on-resize", "signal:HUP"}, "signals")
	r := l.inspect("web", "--during", "0")
	if r.CPUs.Count() != 2 || r.Group.QuotaSeconds != 0.15 || r.Shown != r.CPUs {
		t.Errorf("%+v", r)
	}
	if log := l.inspect("log", "--during", "0"); log.CPUs.Overlaps(&r.Exclusive) || len(log.PIDs) != 1 {
		t.Errorf("%+v beside %+v", log, r)
	}
	l.ok("resize", "web", "--cpu", "2")
	if got := n.line(t); got != "hangup 2 2 2" {
		t.Errorf("the program prints %q", got)
	}
	if has, err := tree.Group("web").Settings(); err != nil || has.CPUs != l.ps()["web"].CPUs || has.Quota != 0 {
		t.Errorf("the kernel has %+v, %v", has, err)
	}
	n.cmd.Process.Signal(unix.SIGTERM)
	if code := n.end(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	l.ok("release", "log", "--kill")
	l.empty()
}
