package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { roles["lease"] = playLease }

var viewFiles = []string{"/sys/devices/system/cpu/online", "/proc/cpuinfo"}

// playLease takes leases of a kind on the view's files, and takes each again as soon as the kernel breaks it.
func playLease(args []string) {
	kind, _ := strconv.Atoi(args[0])
	signal.Ignore(unix.SIGIO)
	refused := 0
	var fds []int
	for _, name := range viewFiles {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
		}
		if errors.Is(err, unix.EAGAIN) {
			refused++
		}
		fds = append(fds, fd)
	}
	fmt.Fprintln(os.Stderr, "leases refused:", refused)
	if want := args[1]; want != strconv.Itoa(refused) {
		fmt.Println("refused", refused, "leases, want", want)
		return
	}
	fmt.Println("ready")
	for {
		time.Sleep(5 * time.Millisecond)
		for _, fd := range fds {
			if is, _ := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); is != kind {
				unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
				unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
			}
		}
	}
}

// TestHostileLease has root in a container of candor run ask for leases on its view. The kernel grants none, since
// candor run keeps the files open for writing, and other containers start, change and end.
func TestHostileLease(t *testing.T) {
	for name, kind := range map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.start([]string{"--cpu", "0.5", "--name", "evil"}, "lease", strconv.Itoa(kind), "2")
			l.othersGoOn(t)
			if row := l.ps()["evil"]; row["state"] != "running" {
				t.Errorf("evil is %v", row["state"])
			}
		})
	}
}

// TestHostileLeaseUnheld is the same for a container whose view no process keeps open, as after candor-runc: the leases are
// granted, and delay only the container's own view.
func TestHostileLeaseUnheld(t *testing.T) {
	for name, kind := range map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			dir := filepath.Join(l.state, "views", "evil")
			l.start([]string{"--cpu", "0.5", "--name", "evil"}, "wait")
			stop := leaseUnheld(t, dir, kind)
			defer stop()
			l.othersGoOn(t)
		})
	}
}

func init() {
	roles["wait"] = func([]string) { fmt.Println("ready"); time.Sleep(time.Hour) }
}

// leaseUnheld replaces the view's files, which candor run keeps open, by files that no process has open, and takes leases on them.
func leaseUnheld(t *testing.T, dir string, kind int) (stop func()) {
	t.Helper()
	var fds []int
	for _, name := range []string{"online", "cpuinfo"} {
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
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	return func() {
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
