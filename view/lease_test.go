package view

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// lease opens a file of a view read-only, like a container, and takes a lease on it.
func lease(t *testing.T, path string, kind int) (release func(), err error) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return func() { unix.Close(fd) }, nil
}

var leaseKinds = map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK}

// TestLeased: if a container holds a lease on a file of the view, Write fails at once with ErrLeased. It
// succeeds after the lease is released.
func TestLeased(t *testing.T) {
	skipUnlessRoot(t)
	for kind, lock := range leaseKinds {
		for _, name := range []string{onlineName, cpuinfoName} {
			t.Run(kind+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "view")
				if err := Write(dir, cpuset.Of(0)); err != nil {
					t.Fatal(err)
				}
				release, err := lease(t, filepath.Join(dir, name), lock)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if err := Write(dir, cpuset.Of(0)); !errors.Is(err, ErrLeased) || !strings.Contains(err.Error(), name) {
					t.Errorf("Write: %v; want ErrLeased and the file", err)
				}
				_, err = ReadCPUs(dir)
				if isHidden := kind == "write" && name == onlineName; isHidden != errors.Is(err, ErrLeased) {
					t.Errorf("ReadCPUs: %v", err)
				}
				if took := time.Since(start); took > 5*time.Second { // the kernel would wait 45 s
					t.Errorf("Write and ReadCPUs took %v", took)
				}
				release()
				if err := Write(dir, cpuset.Of(0)); err != nil {
					t.Errorf("after the lease: %v", err)
				}
			})
		}
	}
}

// TestOpenPreventsLeases: while the files are open for writing, the kernel grants no lease.
func TestOpenPreventsLeases(t *testing.T) {
	skipUnlessRoot(t)
	dir := filepath.Join(t.TempDir(), "view")
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Write(cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	for kind, lock := range leaseKinds {
		for _, name := range []string{onlineName, cpuinfoName} {
			if _, err := lease(t, filepath.Join(dir, name), lock); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("%s lease on %s: %v, want EAGAIN", kind, name, err)
			}
		}
	}
}

// TestOpenWaiting: the holder of a lease does not release it. OpenWaiting waits until the kernel breaks the
// lease after its lease-break time.
func TestOpenWaiting(t *testing.T) {
	skipUnlessRoot(t)
	const file = "/proc/sys/fs/lease-break-time"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(file, before, 0)
	dir := filepath.Join(t.TempDir(), "view")
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	release, err := lease(t, filepath.Join(dir, onlineName), unix.F_RDLCK)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	f, err := OpenWaiting(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Write(cpuset.Of(0)); err != nil {
		t.Error(err)
	}
}

// TestReadersDoNotDelay: locks, mappings, watches and open files of a container do not delay a rewrite.
func TestReadersDoNotDelay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	for _, name := range []string{onlineName, cpuinfoName} {
		path := filepath.Join(dir, name)
		if _, err := unix.InotifyAddWatch(watch, path, unix.IN_ALL_EVENTS); err != nil {
			t.Fatal(err)
		}
		for i := range 500 {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			switch i {
			case 0:
				err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			case 1:
				lock := unix.Flock_t{Type: unix.F_RDLCK}
				err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
			case 2:
				var memory []byte
				if memory, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err == nil {
					defer unix.Munmap(memory)
				}
			}
			if err != nil {
				t.Fatalf("reader %d: %v", i, err)
			}
		}
	}
	start := time.Now()
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Error(err)
	}
	if cpus, err := ReadCPUs(dir); err != nil || cpus != cpuset.Of(0) {
		t.Errorf("ReadCPUs: got %v, %v, want CPU 0", cpus, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("waited %v", took)
	}
}

// TestReadOnlyMountBlocksChanges: through a read-only bind mount, root cannot make a file immutable, truncate
// it or open it for writing.
func TestReadOnlyMountBlocksChanges(t *testing.T) {
	skipUnlessRoot(t)
	source := filepath.Join(t.TempDir(), "view")
	if err := Write(source, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "online")
	if err := os.WriteFile(target, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Join(source, onlineName), target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	if err := makeReadOnly(target); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err == nil {
		t.Error("the file was made immutable")
	}
	if err := os.Truncate(target, 0); !errors.Is(err, syscall.EROFS) {
		t.Errorf("truncate: %v", err)
	}
	if _, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%s", strconv.Itoa(int(f.Fd()))), os.O_RDWR, 0); err == nil {
		t.Error("the file was opened for writing through its descriptor")
	}
	if err := Write(source, cpuset.Of(0)); err != nil {
		t.Error(err)
	}
}

func skipUnlessRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
