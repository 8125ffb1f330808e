package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
)

// TestStateRemoved: the state is removed while programs run. Snapshot reports the strays, and the next
// operation adopts them.
func TestStateRemoved(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	if err := os.Remove(l.store.File()); err != nil {
		t.Fatal(err)
	}
	s, err := l.Snapshot()
	if err != nil || len(s.Grants) != 0 || strings.Join(s.Strays, " ") != "web" || s.Owner != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := s.Grant("web"); err == nil || !strings.Contains(err.Error(), "adopts") {
		t.Errorf("on request: %v", err)
	}
	l.nudge()
	l.check("web")
	if s, err := l.Snapshot(); err != nil || len(s.Strays) != 0 || s.Grants[0].CPUs != web.CPUs {
		t.Errorf("adopted: %+v, %v", s, err)
	}
	other, err := Open(Options{StateDir: filepath.Join(t.TempDir(), "other"), Cgroup: cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := other.Snapshot(); err != nil || s.Owner != l.store.Dir || len(s.Strays) != 0 {
		t.Errorf("looked at from another state: %+v, %v", s, err)
	}
}

// Every operation of a second state on the same cgroups is refused, and nothing of the first state changes.
func TestTwoStates(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("web", "1"), "wait")
	other, err := Open(Options{
		StateDir: filepath.Join(t.TempDir(), "other"),
		Cgroup:   cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"allocate": func() error { _, err := other.Allocate(ctx, ask("db", "0.5")); return err }(),
		"release":  other.Release(ctx, "web", true),
		"nothing":  other.Reconcile(ctx),
		"give back": func() error {
			b, err := other.StartGiveBack(false)
			if err != nil {
				return err
			}
			defer b.Close()
			_, err = b.Try(ctx)
			return err
		}(),
	} {
		if !errors.Is(err, cgroup.ErrOwned) || !strings.Contains(err.Error(), l.store.Dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.nudge()
	l.check("web")
	if err := l.Release(ctx, "web", true); err != nil {
		t.Fatal(err)
	}
	if s, err := other.Snapshot(); err != nil || s.Owner != "" {
		t.Errorf("without containers: %+v, %v", s, err)
	}
	if err := other.Reconcile(ctx); err != nil { // the GiveBack has left no mark
		t.Errorf("without containers: %v", err)
	}
}

// TestRealPath: all paths of a directory lead to the same state.
func TestRealPath(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/run", 0o755), os.Symlink("run", dir+"/var")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/run/candor", dir + "/var/candor", "run/../var/candor", dir + "//run/candor/"} {
		if got, err := realPath(path); got != real+"/run/candor" || err != nil {
			t.Errorf("%s: %s, %v", path, got, err)
		}
		if !IsSameStateDir(path, real+"/run/candor") || IsSameStateDir(path, real+"/run/candor-2") {
			t.Errorf("%s: not the same directory as %s/run/candor, or the same as candor-2", path, real)
		}
	}
	if got, err := realPath("/no/such/state"); got != "/no/such/state" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// Other users can read the state and the cgroups, with every umask of the first operation.
func TestUmask(t *testing.T) {
	l := newLab(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	l.must(ask("web", "0.5"), "wait")
	for file, want := range map[string]os.FileMode{
		l.store.Dir: 0o755, l.store.File(): 0o644, l.store.RequestFile("web"): 0o644, l.store.LockFile(): 0o600,
		l.store.ViewDir("web"): 0o755, filepath.Join(l.store.ViewDir("web"), "online"): 0o644,
	} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", file, info.Mode(), err, want)
		}
	}
}
