// Package procfs reads what several rooms ask of /proc: processes, mounts, the boot.
// It reads, and knows nothing of containers.
package procfs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernfile"
)

// A Stat is what /proc/PID/stat says of a process (proc_pid_stat(5)).
type Stat struct {
	State  byte   // 'Z' is a zombie, 'X' dead
	Flags  uint64 // the kernel's PF_ flags
	Faults uint64 // pages that it was given
	Start  uint64 // clock ticks since boot
}

// kernelThread is PF_KTHREAD.
const kernelThread = 0x00200000

// IsKernelThread reports whether the process is no program's.
func (s Stat) IsKernelThread() bool { return s.Flags&kernelThread != 0 }

// ReadStat reads a process's stat. The error is fs.ErrNotExist or ESRCH if it has gone.
func ReadStat(pid int) (Stat, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := kernfile.Read(file)
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return s, err
}

// Began returns when a process began, given its folder in /proc, as the clock on the wall counts now. It is
// exact to some hundredths of a second.
func Began(dir string) (time.Time, error) {
	text, err := kernfile.Read(dir + "/stat")
	if err != nil {
		return time.Time{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s/stat: %w", dir, err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(time.Duration(s.Start)*tick - time.Duration(now.Nano())), nil
}

func parseStat(text []byte) (s Stat, err error) {
	// The name, field 2, is in parentheses and may hold anything, even ")".
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return s, fmt.Errorf("want 52 fields, got %.60q", text)
	}
	s.State = fields[0][0]
	if len(fields[0]) != 1 || !unicode.IsLetter(rune(s.State)) {
		return Stat{}, fmt.Errorf("want a letter for the state, got %.60q", fields[0])
	}
	if s.Flags, err = strconv.ParseUint(string(fields[6]), 10, 64); err != nil {
		return s, err
	}
	if s.Faults, err = strconv.ParseUint(string(fields[7]), 10, 64); err != nil {
		return s, err
	}
	s.Start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return s, err
}

// A Status is what /proc/PID/status says of a process, and that of /proc/PID/task/TID of a
// thread (proc_pid_status(5)).
type Status struct {
	Parent  int        // process id
	Threads int        // of the process, at least 1
	CPUs    cpuset.Set // that the thread, of a process the first one, may run on
}

// ReadStatus reads the status of a process or thread, given its folder, such as /proc/1. The error is
// fs.ErrNotExist or ESRCH if it has gone.
func ReadStatus(dir string) (Status, error) {
	file := dir + "/status"
	text, err := kernfile.Read(file)
	if err != nil {
		return Status{}, err
	}
	s, err := parseStatus(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return s, err
}

func parseStatus(text []byte) (s Status, err error) {
	found := map[string]bool{}
	for line := range bytes.Lines(text) { // the name, on the first one, has its line breaks escaped
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":\t")
		switch key {
		case "PPid":
			s.Parent, err = strconv.Atoi(value)
		case "Threads":
			if s.Threads, err = strconv.Atoi(value); err == nil && s.Threads == 0 {
				err = unix.ESRCH // it is reaped while it is read
			} else if err == nil && s.Threads < 0 {
				err = strconv.ErrRange
			}
		case "Cpus_allowed_list":
			s.CPUs, err = cpuset.ParsePossible(value)
		default:
			continue
		}
		if err != nil {
			return Status{}, fmt.Errorf("%s %.60q: %w", key, value, err)
		}
		found[key] = true
	}
	if len(found) != 3 {
		return Status{}, fmt.Errorf("want PPid, Threads and Cpus_allowed_list, got %d of them", len(found))
	}
	return s, nil
}

// CommandLine returns the words of a process's command line, given its folder, such as
// /proc/1. A kernel thread has none.
func CommandLine(dir string) ([]string, error) {
	text, err := kernfile.Read(dir + "/cmdline")
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// BootID returns the kernel's name for this boot, which no process outlives.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	id, err := kernfile.Read("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
})

// Mounts reads the text of a mountinfo file, oldest mount first.
func Mounts(text []byte) ([]*mountinfo.Info, error) {
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	return mounts, nil
}
