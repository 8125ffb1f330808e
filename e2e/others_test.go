package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOtherUsersCanInspect: other users can list containers, even if the first candor ran under a umask that
// denies them all rights.
func TestOtherUsersCanInspect(t *testing.T) {
	l := newLab(t)
	if err := os.Chmod(filepath.Dir(filepath.Dir(l.state)), 0o755); err != nil { // the test's own folders
		t.Fatal(err)
	}
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	l.start([]string{"--cpu", "0.5", "--name", "web"}, "sleep")
	for _, args := range [][]string{{"ps"}, {"inspect", "web"}, {"map", "--sample", "0"}} {
		cmd := l.candor(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if got := do(t, cmd); got.code != 0 || got.err != "" || !strings.Contains(got.out, "web") {
			t.Errorf("candor %v as another user: %+v", args, got)
		}
	}
}

// TestStateFileRemoved: if the state file is removed, ps and map name the running cgroup in a note, and the
// next operation adopts it.
func TestStateFileRemoved(t *testing.T) {
	l := newLab(t)
	l.start([]string{"--cpu", "0.5", "--name", "web"}, "sleep")
	before := l.ps()["web"]
	if err := os.Remove(filepath.Join(l.state, "state.json")); err != nil {
		t.Fatal(err)
	}
	const note = "candor: 1 cgroup runs without a state: web; the next run, resize or release adopts it\n"
	for _, args := range [][]string{{"ps"}, {"ps", "-o", "json"}, {"map", "--sample", "0"}} {
		if got := do(t, l.candor(args...)); got.code != 0 || got.err != note {
			t.Errorf("candor %v: %+v", args, got)
		}
	}
	if got := do(t, l.candor("inspect", "web")); got.code != 2 || !strings.Contains(got.err, "it runs without a state") {
		t.Errorf("inspect: %+v", got)
	}
	l.ok("resize", "web", "--cpu", "0.4")
	if after := l.ps()["web"]; after.Limit != 400 || after.CPUs != before.CPUs || after.Class != "sensitive" {
		t.Errorf("was %+v, is %+v", before, after)
	}
}
