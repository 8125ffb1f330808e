package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDockerDiskFull: without disk space for the state, candor-runc creates no container and reports the
// reason. Running containers continue, and the first operation that can write finds the ended containers.
func TestDockerDiskFull(t *testing.T) {
	w := newWrapped(t)
	w.need(2)
	if err := os.Mkdir(w.state, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", w.state, "tmpfs", 0, "size=256k,mode=0755"); err != nil {
		t.Skipf("mounts: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(w.state, unix.MNT_DETACH) })
	w.writeConfig(50000)
	w.does("create", "--bundle", w.dir, "a")
	w.does("create", "--bundle", w.dir, "b")
	before := w.ps()
	fill := filepath.Join(w.state, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("there is room for more than the file system has")
	}
	os.Remove(filepath.Join(w.dir, "log"))
	got := do(t, w.command("candor-runc", "create", "--bundle", w.dir, "c"))
	log, _ := os.ReadFile(filepath.Join(w.dir, "log"))
	if got.code != 1 || strings.Count(string(log), "level=error") != 1 || !strings.Contains(string(log), "c: ") || !strings.Contains(string(log), "no space left on device") {
		t.Errorf("exit %d; %s", got.code, log)
	}
	if after := w.ps(); len(after) != 2 || after["a"].CPUs != before["a"].CPUs || after["b"].CPUs != before["b"].CPUs {
		t.Errorf("%+v became %+v", before, after)
	}
	w.honest()
	w.does("delete", "--force", "a")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	w.does("create", "--bundle", w.dir, "c")
	if rows := w.ps(); len(rows) != 2 || rows["b"].CPUs != before["b"].CPUs || rows["c"].State != "running" {
		t.Errorf("%+v", rows)
	}
	w.honest()
	w.does("delete", "--force", "b")
	w.does("delete", "--force", "c")
	w.empty()
	if got := w.bundles(); got != "" {
		t.Errorf("bundles left: %s", got)
	}
}

// TestDockerCrun: with crun as the real runtime the life of a container is the same. crun refuses cgroup v1
// and v2 side by side, so the test hides v2 from it.
func TestDockerCrun(t *testing.T) {
	if _, err := exec.LookPath("crun"); err != nil {
		t.Skipf("optional: %v", err)
	}
	w := newWrappedOver(t, `exec unshare --mount sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; exec crun "$@"' sh "$@"`)
	w.need(2)
	w.writeConfig(100000, func(s ociSpec) { s["ociVersion"] = "1.0.2" }) // runc may propose a version that crun does not support
	w.does("create", "--bundle", w.dir, "a")
	w.does("start", "a")
	if a := w.ps()["a"]; a.State != "running" || a.Limit != 1000 {
		t.Errorf("%+v", a)
	}
	w.does("update", "--cpu-quota", "150000", "--cpu-period", "100000", "a")
	if a := w.ps()["a"]; a.Limit != 1500 || a.CPUs.Count() != 2 {
		t.Errorf("%+v", a)
	}
	w.does("exec", "a", "nproc")
	w.waitForLine("2")
	w.honest()
	w.does("delete", "--force", "a")
	w.empty()
}

// TestDockerUpdateFrozen: with systemd on cgroup v1 runc freezes a container during an update. If runc is
// killed then, the container continues; a container that a user paused stays paused.
func TestDockerUpdateFrozen(t *testing.T) {
	w := newWrappedOver(t, `case " $* " in *" update "*)
	group=$CANDOR_CGROUP_PARENT/a
	if [ -e /sys/fs/cgroup/freezer ]; then echo FROZEN >/sys/fs/cgroup/freezer$group/freezer.state; else echo 1 >/sys/fs/cgroup$group/cgroup.freeze; fi
	kill -9 $$
esac
exec runc "$@"`)
	w.does("create", "--bundle", w.dir, "a")
	w.does("start", "a")
	for _, paused := range []bool{false, true} {
		if paused {
			w.does("pause", "a")
		}
		if got := do(t, w.command("candor-runc", "update", "--cpu-quota", "50000", "--cpu-period", "100000", "a")); got.code != 128+9 {
			t.Errorf("paused %v: %+v", paused, got)
		}
		frozen, err := w.tree.Group("a").Frozen()
		if err != nil || frozen != paused || w.ps()["a"].Limit != 1000 {
			t.Errorf("paused %v: frozen %v (%v); %+v", paused, frozen, err, w.ps()["a"])
		}
	}
	log, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil || strings.Count(string(log), "a: the runtime's update left it frozen: Candor has thawed it") != 1 {
		t.Errorf("%s (%v)", log, err)
	}
	w.does("resume", "a")
	w.does("delete", "--force", "a")
	w.empty()
}
