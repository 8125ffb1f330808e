package hostile

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/e2e/hostile/attacks"
)

// TestHostileLease has root in a container of candor run ask for leases on its view. The kernel grants none, since
// candor run keeps the files open for writing, and other containers start, change and end.
func TestHostileLease(t *testing.T) {
	for _, kind := range []string{"read", "write"} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t)
			flags, files := []string{"--cpu", "0.5", "--view", "full+stat", "--name", "evil"}, []string{"online", "cpuinfo", "stat"}
			if l.tree.HasMemory() {
				flags, files = append(flags, "--memory", "64m"), append(files, "meminfo", "swaps")
			}
			l.start(flags, "lease", kind)
			for _, name := range files {
				if fd, err := lease(t, filepath.Join(l.state, "views", "evil", name), leaseKinds[kind]); err != unix.EAGAIN {
					t.Errorf("a %s lease on %s while candor run keeps it open: %d, %v", kind, name, fd, err)
				}
			}
			l.othersGoOn(t)
			if row := l.ps()["evil"]; row["state"] != "running" {
				t.Errorf("evil is %v", row["state"])
			}
		})
	}
}

// TestHostileLeaseOnClosedView is TestHostileLease for a container whose view no process keeps open, as after candor-runc.
// The kernel grants the leases, and they delay only the container's own view. candor uninstall completes although the leases are taken
// again and again.
func TestHostileLeaseOnClosedView(t *testing.T) {
	for name, kind := range leaseKinds {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			dir := filepath.Join(l.state, "views", "evil")
			flags, files := []string{"--cpu", "0.5", "--view", "full+stat", "--name", "evil"}, []string{"online", "cpuinfo", "stat"}
			if l.tree.HasMemory() {
				flags, files = append(flags, "--memory", "64m"), append(files, "meminfo", "swaps")
			}
			l.start(flags, "wait")
			stop := leaseUnheld(t, dir, files, kind)
			defer stop()
			l.othersGoOn(t)
			start := time.Now()
			l.ok("uninstall")
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("candor uninstall took %v", took)
			}
		})
	}
}

func init() {
	roles["wait"] = func([]string) { fmt.Println("ready"); time.Sleep(time.Hour) }
}

var leaseKinds = map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK}

// lease takes a lease on a file. The descriptor holds it.
func lease(t *testing.T, path string, kind int) (fd int, err error) {
	t.Helper()
	if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind); err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// leaseUnheld replaces files of a view, which candor run keeps open, by files that no process has open, and takes leases on them. When the
// kernel begins to break a lease, leaseUnheld ends the lease and takes a new one.
func leaseUnheld(t *testing.T, dir string, files []string, kind int) (stop func()) {
	t.Helper()
	signal.Ignore(unix.SIGIO)
	var fds []int
	for _, name := range files {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path+".new", text, 0o644)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			t.Fatal(err)
		}
		fd, err := lease(t, path, kind)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
			for _, fd := range fds {
				attacks.TakeLease(fd, kind)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// othersGoOn starts, resizes, lists and ends another container, which must not take as long as a broken lease.
func (l *lab) othersGoOn(t *testing.T) {
	t.Helper()
	start := time.Now()
	other := l.start([]string{"--cpu", "0.3", "--name", "other"}, "wait")
	l.ok("resize", "other", "--cpu", "0.2")
	if row := l.ps()["other"]; row["state"] != "running" {
		t.Errorf("other is %v", row["state"])
	}
	l.ok("inspect", "evil", "--during", "0")
	l.ok("map")
	l.ok("release", "other", "--kill")
	other.Wait()
	l.ok("run", "--cpu", "0.2", "--", "true")
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
