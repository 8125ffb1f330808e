package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host/state"
)

// smallDisk mounts a file system that is almost full.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts: needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a full disk an operation fails with a one-line error and changes nothing. It succeeds when there is space again.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "size=400k")
	l := labIn(t, filepath.Join(dir, "state"))
	l.needCPUs(2)
	l.must(flexible("log", "0"), "wait")
	l.must(ask("web", "0.5"), "wait")
	l.check("log", "web")
	file := filepath.Join(dir, "fill")
	fill(t, file)
	l.refuses("log", "web")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	l.must(ask("db", "1"), "wait")
	l.check("log", "web", "db")
}

// fill fills the file system with a file.
func fill(t *testing.T, name string) {
	t.Helper()
	full, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; _, err = full.Write(block) {
	}
	full.Close()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// TestSaveFails: if the state file cannot be replaced, an operation fails and restores the settings in the
// kernel, which it has already changed.
func TestSaveFails(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(flexible("log", "0"), "wait")
	l.must(ask("web", "0.5"), "wait")
	l.check("log", "web")
	blocked := filepath.Join(l.store.Dir, ".state.json")
	if err := os.Mkdir(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(blocked, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.refuses("log", "web")
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	l.must(ask("db", "1"), "wait")
	l.check("log", "web", "db")
}

// If the undo fails too, the error names both failures and the state file.
func TestUndoFails(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("web", "0.5"), "wait")
	inTheWay := filepath.Join(l.store.RequestFile("db"), "x")
	if err := os.MkdirAll(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := l.start(ask("db", "0.5"), "wait")
	for _, want := range []string{"request of db", "cannot undo the operation: ", l.store.File() + " is unchanged", "next operation"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %q in one line, got %v", want, err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	l.must(ask("db", "0.5"), "wait")
	l.check("web", "db")
}

// refuses fails unless starting and resizing return an error and change nothing.
func (l *lab) refuses(names ...string) {
	l.Helper()
	before := l.kernel()
	if n, err := l.start(ask("db", "1"), "wait"); err == nil {
		l.Errorf("started on %v", n.CPUs)
	} else if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), l.store.Dir) {
		l.Errorf("want one line that names the file, got %q", err)
	}
	if is, err := l.tree.Group("db").Exists(); is || err != nil {
		l.Errorf("the group of what could not be started is there: %v", err)
	}
	if _, _, err := l.Resize(context.Background(), "web", 1500, 0); err == nil {
		l.Error("resized")
	}
	l.check(names...)
	if after := l.kernel(); after != before {
		l.Errorf("the kernel had\n%s\nnow it has\n%s", before, after)
	}
}

// kernel formats the settings of all cgroups.
func (l *lab) kernel() string {
	l.Helper()
	groups, err := l.observe()
	if err != nil {
		l.Fatal(err)
	}
	op := &operation{groups: groups}
	var text strings.Builder
	for _, target := range op.currentTargets() {
		s := target.settings
		text.WriteString(target.name + " " + s.CPUs.String() + " " + s.Mems.String() + " " +
			s.Quota.String() + "/" + s.Period.String() + " " + itoa(s.Weight) + "\n")
	}
	return text.String()
}

// A directory that is not writable, or belongs to another user, is refused.
func TestUnusableDirectory(t *testing.T) {
	readOnly := smallDisk(t, "size=100k")
	if err := unix.Mount("", readOnly, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(t.TempDir(), "others")
	if err := errors.Join(os.Mkdir(others, 0o755), os.Chown(others, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o755), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"read-only": filepath.Join(readOnly, "state"), "others'": others, "open to all": open, "link": link,
		"below nothing": filepath.Join(t.TempDir(), "no", "state"),
	} {
		t.Run(name, func(t *testing.T) {
			l := labIn(t, dir)
			_, err := l.start(ask("web", "0.5"), "wait")
			if err == nil || !strings.Contains(err.Error(), "state") || !strings.Contains(err.Error(), filepath.Base(dir)) {
				t.Errorf("got %v", err)
			}
			if names, _ := l.tree.Groups(); len(names) != 0 {
				t.Errorf("groups %v", names)
			}
		})
	}
}

// A helper whose creator was killed before saving the state does not count as a program: its cgroup is removed.
func TestWaitingHelperIsNotAdopted(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd := exec.Command("/proc/self/exe", HelperCommand, "3")
	cmd.ExtraFiles = []*os.File{read}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer cmd.Wait()
	defer cmd.Process.Kill()
	a := ask("web", "1")
	a.PID = cmd.Process.Pid
	if _, err := l.Allocate(ctx, a); err != nil {
		t.Fatal(err)
	}
	l.forge(func(s *state.State) { s.Grants = nil })
	l.nudge()
	l.check()
}

// An incomplete cgroup, left by a candor process that was killed while creating or removing it, does no harm.
func TestHalfGroup(t *testing.T) {
	l := newLab(t)
	if l.tree.Version() == 2 {
		t.Skip("a group of cgroup v2 is one folder")
	}
	l.needCPUs(2)
	for _, controller := range []string{"cpu", "cpuset", "cpuacct", "freezer"} {
		known := l.must(ask("known-"+controller, "0.1"), "wait")
		known.stop()
		for _, name := range []string{"known-", "unknown-"} {
			if err := l.tree.Group(name + controller).Remove(); err != nil {
				t.Fatal(err)
			}
			err := os.Mkdir(filepath.Join("/sys/fs/cgroup", controller, l.parent, name+controller), 0o755)
			if err != nil {
				t.Skip(err) // mounted elsewhere
			}
		}
	}
	l.must(ask("web", "0.5"), "wait")
	l.orphan()
	l.nudge()
	l.check("web")
}
