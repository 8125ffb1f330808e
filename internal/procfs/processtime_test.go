package procfs

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReadProcessTimes: the CPU time of this process grows while it computes.
func TestReadProcessTimes(t *testing.T) {
	before, err := ReadProcessTimes()
	if err != nil || before[os.Getpid()].Start == 0 || before[os.Getpid()].Comm == "" {
		t.Fatalf("%+v, %v", before[os.Getpid()], err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		after, err := ReadProcessTimes()
		if err != nil {
			t.Fatal(err)
		}
		if after[os.Getpid()].Time > before[os.Getpid()].Time {
			return
		}
	}
	t.Error("this process used no CPU time in 10 s")
}

// TestHiddenProcesses: a process that has ended, or that this user must not read, is omitted. Other errors are returned.
func TestHiddenProcesses(t *testing.T) {
	read := func(err error) (map[int]ProcessTime, error) {
		return processTimes([]string{"1", "self", "7"}, func(pid int) (Stat, error) {
			if pid == 1 {
				return Stat{}, &os.PathError{Op: "open", Path: "/proc/1/stat", Err: err}
			}
			return Stat{Comm: "make"}, nil
		})
	}
	for _, err := range []error{unix.ENOENT, unix.ESRCH, unix.EPERM, unix.EACCES} {
		if times, got := read(err); got != nil || len(times) != 1 || times[7].Comm != "make" {
			t.Errorf("%v: %+v, %v", err, times, got)
		}
	}
	if _, err := read(unix.EIO); !errors.Is(err, unix.EIO) {
		t.Errorf("%v, want EIO", err)
	}
}
