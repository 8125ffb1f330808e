package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// A Process is one process of this boot. A pid alone is used again, a pid with
// its start time is not.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, /proc/PID/stat field 22
}

// processOf returns the process that has a pid now.
func processOf(pid int) (Process, error) {
	_, start, err := statOf(pid)
	return Process{pid, start}, err
}

// Alive reports whether the process still runs. A zombie does not. A process
// that cannot be looked at (hidepid=) counts as alive: nothing is reaped on a guess.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	state, start, err := statOf(p.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	return err != nil || start == p.Start && state != 'Z' && state != 'X'
}

// statOf reads a process's state and start time.
func statOf(pid int) (state byte, start uint64, err error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	// The name, field 2, is in parentheses and may hold anything, even ")".
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("%s: want 52 fields", file)
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], start, err
}

// bootID returns the kernel's name for this boot.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// sinceBoot returns the time since the machine started. Unlike the time of
// day it never jumps.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // the clock exists since Linux 2.6.39
	}
	return time.Duration(now.Nano())
}

// cpusetKeepsAffinity reports whether threads keep the affinity that they set
// themselves when their cpuset changes: since Linux 6.2.
func cpusetKeepsAffinity() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return releaseAtLeast(unix.ByteSliceToString(name.Release[:]), 6, 2)
}

// releaseAtLeast compares a kernel release such as "6.1.0-18-cloud-amd64".
func releaseAtLeast(release string, major, minor int) bool {
	var gotMajor, gotMinor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &gotMajor, &gotMinor); n != 2 {
		return false
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

// pinsThreads reports whether a thread of one of the processes has an affinity
// of its own: some of the CPUs, but not all.
func pinsThreads(pids []int, cpus cpuset.Set) bool {
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, file := range files {
			if allowed, ok := allowedCPUs(file); ok && allowed.Intersect(cpus) != cpus {
				return true
			}
		}
	}
	return false
}

// allowedCPUs reads a thread's affinity. A thread that has ended has none.
func allowedCPUs(statusFile string) (cpuset.Set, bool) {
	status, err := os.ReadFile(statusFile)
	if err != nil {
		return cpuset.Set{}, false
	}
	_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:\t")
	list, _, _ := strings.Cut(rest, "\n")
	cpus, err := cpuset.Parse(list)
	return cpus, err == nil && list != ""
}

// listPIDs names some processes of many.
func listPIDs(pids []int) string {
	const most = 5
	var names []string
	for _, pid := range pids[:min(len(pids), most)] {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		names = append(names, fmt.Sprintf("%d (%s)", pid, strings.TrimSpace(string(comm))))
	}
	if len(pids) > most {
		names = append(names, fmt.Sprintf("%d more", len(pids)-most))
	}
	return strings.Join(names, ", ")
}
