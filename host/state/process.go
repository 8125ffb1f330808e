package state

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/procfs"
)

// A Process is a process of this boot. The kernel reuses pids, but not a pid together with its start time.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, /proc/PID/stat field 22
}

// ProcessOf returns the process that has a pid now.
func ProcessOf(pid int) (Process, error) {
	stat, err := procfs.ReadStat(pid)
	return Process{pid, stat.Start}, err
}

// OwnProcess returns this process.
func OwnProcess() (Process, error) {
	if self := ownProcess.Load(); self != nil {
		return *self, nil
	}
	self, err := ProcessOf(os.Getpid())
	if err == nil {
		ownProcess.Store(&self)
	}
	return self, err
}

// ownProcess caches the result of OwnProcess. Errors, such as too many open files, are not cached.
var ownProcess atomic.Pointer[Process]

// Alive reports whether the process still runs. A zombie does not run. A process that cannot be inspected (hidepid=)
// counts as alive, so that no grant is reaped on a guess.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	stat, err := procfs.ReadStat(p.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	return err != nil || stat.Start == p.Start && stat.State != 'Z' && stat.State != 'X'
}

// SinceBoot returns the time since the machine booted (CLOCK_BOOTTIME). Unlike the wall clock it never jumps.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // the clock exists since Linux 2.6.39
	}
	return time.Duration(now.Nano())
}
