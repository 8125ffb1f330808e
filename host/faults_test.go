package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A state file that cannot be used is kept aside, and what runs keeps its CPUs,
// class, limit and all that it asked for.
func TestBrokenState(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(good []byte) []byte
	}{
		{"truncated", func(good []byte) []byte { return good[:len(good)/2] }},
		{"empty", func([]byte) []byte { return nil }},
		{"garbage", func([]byte) []byte { return bytes.Repeat([]byte{0xff, 0, '{'}, 5000) }},
		{"version 0", func(good []byte) []byte {
			return bytes.Replace(good, []byte(`"version": 1`), []byte(`"version": 0`), 1)
		}},
		{"unknown field", func(good []byte) []byte { return bytes.Replace(good, []byte(`"name"`), []byte(`"nmae"`), 1) }},
		{"too long", func(good []byte) []byte { return append(good, bytes.Repeat([]byte(" "), maxStateSize)...) }},
		{"contradiction", func(good []byte) []byte { return bytes.Replace(good, []byte(`"web"`), []byte(`"db"`), 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.needCPUs(2)
			l.must(flexible("log", "0.2"), "wait")
			db := ask("db", "0.5")
			db.OnResize = "signal:HUP"
			l.must(db, "wait")
			l.must(ask("web", "1"), "wait")
			before, err := l.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			good, err := os.ReadFile(l.store.stateFile())
			if err != nil {
				t.Fatal(err)
			}
			bad := test.spoil(bytes.Clone(good))
			if err := os.WriteFile(l.store.stateFile(), bad, 0o644); err != nil {
				t.Fatal(err)
			}
			l.nudge()
			if !strings.Contains(l.log.String(), "state unusable") {
				t.Errorf("not said: %s", l.log)
			}
			if kept, err := os.ReadFile(l.store.badFile()); err != nil || !bytes.Equal(kept, bad) {
				t.Errorf("the broken file was not kept: %v", err)
			}
			l.check("db", "log", "web") // adopted by name
			after, _ := l.Snapshot()
			for i := range before.Grants {
				was := &before.Grants[i]
				is, err := after.Grant(was.ID)
				if err != nil {
					t.Fatal(err)
				}
				if is.CPUs != was.CPUs || is.Request != was.Request || is.Spec != was.Spec || is.Main != was.Main {
					t.Errorf("was %+v\nis  %+v", was, is)
				}
			}
		})
	}
}

// A newer Candor's state is nothing to touch.
func TestNewerState(t *testing.T) {
	l := newLab(t)
	l.must(ask("web", "0.5"), "wait")
	newer := []byte(`{"version": 2, "cpus": "in a way that nobody knows yet"}`)
	if err := os.WriteFile(l.store.stateFile(), newer, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := l.start(ask("db", "0.5"), "wait")
	if !errors.Is(err, errNewer) {
		t.Errorf("got %v", err)
	}
	if now, _ := os.ReadFile(l.store.stateFile()); !bytes.Equal(now, newer) {
		t.Errorf("the file is now %s", now)
	}
	if names, _ := l.tree.Groups(); len(names) != 1 {
		t.Errorf("groups %v", names)
	}
}

// The state of an earlier boot says nothing about this one.
func TestEarlierBoot(t *testing.T) {
	l := newLab(t)
	web := l.must(ask("web", "1"), "wait")
	web.stop()
	l.forge(func(s *state) { s.Boot = "another" })
	l.nudge()
	l.check()
	if !strings.Contains(l.log.String(), "earlier boot") {
		t.Errorf("not said: %s", l.log)
	}
}

// smallDisk mounts a file system that holds next to nothing.
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

// On a full disk an operation fails in one line and changes nothing; when there
// is room again it works.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "size=400k")
	l := labIn(t, filepath.Join(dir, "state"))
	l.needCPUs(2)
	l.must(flexible("log", "0"), "wait")
	l.must(ask("web", "0.5"), "wait")
	l.check("log", "web")
	fill := filepath.Join(dir, "fill")
	full, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; _, err = full.Write(block) {
	}
	full.Close()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	l.refuses("log", "web")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	l.must(ask("db", "1"), "wait")
	l.check("log", "web", "db")
}

// The same where only the state file itself cannot be replaced: the kernel has
// been changed by then, and is changed back.
func TestSaveFails(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(flexible("log", "0"), "wait")
	l.must(ask("web", "0.5"), "wait")
	l.check("log", "web")
	blocked := filepath.Join(l.store.dir, ".state.json")
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

// Where what was begun can't be undone either, both are said, and what is left.
func TestUndoFails(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("web", "0.5"), "wait")
	inTheWay := filepath.Join(l.store.request("db"), "x")
	if err := os.MkdirAll(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := l.start(ask("db", "0.5"), "wait")
	for _, want := range []string{"request of db", "to undo it failed too: ", l.store.stateFile() + " stands as it was", "next operation"} {
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

// refuses fails unless starting and resizing fail with everything left as it was.
func (l *lab) refuses(names ...string) {
	l.Helper()
	before := l.kernel()
	if n, err := l.start(ask("db", "1"), "wait"); err == nil {
		l.Errorf("started on %v", n.CPUs)
	} else if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), l.store.dir) {
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

// kernel writes down all groups as the kernel has them.
func (l *lab) kernel() string {
	l.Helper()
	groups, err := l.observe()
	if err != nil {
		l.Fatal(err)
	}
	op := &operation{groups: groups}
	var text strings.Builder
	for _, target := range op.present() {
		s := target.settings
		text.WriteString(target.name + " " + s.CPUs.String() + " " + s.Mems.String() + " " +
			s.Quota.String() + "/" + s.Period.String() + " " + itoa(s.Weight) + "\n")
	}
	return text.String()
}

// A directory that cannot be written, or is not one's own, is refused.
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

// Who waits for the lock too long is told who has it.
func TestLockHeld(t *testing.T) {
	l := newLab(t)
	l.nudge()
	held, err := takeLock(ctx, l.store.lockFile(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_, err = takeLock(ctx, l.store.lockFile(), 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "process "+itoa(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := takeLock(cancelled, l.store.lockFile(), time.Minute); !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	held.release()
	again, err := takeLock(ctx, l.store.lockFile(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}

// A lock file that is removed while somebody waits for it locks nobody out of
// anything: he then waits for the one that has its name now.
func TestLockRemoved(t *testing.T) {
	l := newLab(t)
	l.nudge()
	name := l.store.lockFile()
	first, err := takeLock(ctx, name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	waiter := make(chan *lock, 1)
	go func() {
		held, err := takeLock(ctx, name, time.Minute)
		if err != nil {
			t.Error(err)
		}
		waiter <- held
	}()
	waitedFor(t, first.file, waiter)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	second, err := takeLock(ctx, name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	first.release()
	waitedFor(t, second.file, waiter)
	second.release()
	(<-waiter).release()
}

// waitedFor waits until somebody waits for the lock on a file, which is not yet his.
func waitedFor(t *testing.T, file *os.File, early <-chan *lock) {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	inode := ":" + strconv.FormatUint(stat.Ino, 10) + " "
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
		select {
		case <-early:
			t.Fatal("two have the lock")
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the lock")
		}
	}
}

// A helper whose creator was killed before the state was saved is no program:
// its group goes with it.
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
	l.forge(func(s *state) { s.Grants = nil })
	l.nudge()
	l.check()
}

// Half a group, left by a candor that was killed while it made or removed it,
// is in nobody's way.
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
