// Package procfs reads processes, mounts and the boot ID from /proc. Every read of a file that a process can grow has a bound, and no
// read waits for a process. The package does not know containers.
//
// prometheus/procfs is not sufficient: it truncates long files without an error, and its read of a command line can wait for the
// memory lock of the process.
package procfs

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

// A Stat is the content of /proc/PID/stat (proc_pid_stat(5)).
type Stat struct {
	Comm   string        // name of the program, at most 15 bytes, untrusted
	State  byte          // 'Z' is a zombie, 'X' dead
	Parent int           // process ID
	Flags  uint64        // the kernel's PF_ flags
	Faults uint64        // page faults that needed no read from disk (minflt)
	Start  uint64        // clock ticks since boot
	Time   time.Duration // user and system time of all threads, living and ended, in steps of 10 ms
}

// kernelThread is PF_KTHREAD.
const kernelThread = 0x00200000

// IsKernelThread reports whether the process is a thread of the kernel.
func (s Stat) IsKernelThread() bool { return s.Flags&kernelThread != 0 }

// ReadStat reads the stat of a process. The error is fs.ErrNotExist or ESRCH if the process has ended.
func ReadStat(pid int) (Stat, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := kernelfs.Read(file)
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return s, err
}

// Began returns the start time of a process, given its directory in /proc. The conversion uses the current wall clock, so the result
// is exact to a few hundredths of a second.
func Began(dir string) (time.Time, error) {
	text, err := kernelfs.Read(dir + "/stat")
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
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 {
		return s, fmt.Errorf("must have 52 fields, has %.60q", text)
	}
	if begin < 0 || begin >= end {
		return s, fmt.Errorf("must have a name in parentheses, has %.60q", text)
	}
	s.Comm = string(text[begin+1 : end])
	if s.Parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return Stat{}, err
	}
	s.State = fields[0][0]
	if len(fields[0]) != 1 || !unicode.IsLetter(rune(s.State)) {
		return Stat{}, fmt.Errorf("state must be a letter, is %.60q", fields[0])
	}
	if s.Flags, err = strconv.ParseUint(string(fields[6]), 10, 64); err != nil {
		return s, err
	}
	if s.Faults, err = strconv.ParseUint(string(fields[7]), 10, 64); err != nil {
		return s, err
	}
	for _, spent := range fields[11:13] { // utime, stime
		n, err := strconv.ParseUint(string(spent), 10, 64)
		if err != nil {
			return Stat{}, err
		}
		s.Time += time.Duration(min(n, maxTicks)) * tick
	}
	s.Start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return s, err
}

// A Status is the content of /proc/PID/status, or of /proc/PID/task/TID/status for a thread (proc_pid_status(5)).
type Status struct {
	Parent  int        // process id
	Threads int        // number of threads of the process, at least 1
	CPUs    cpuset.Set // allowed CPUs of the thread; for a process, of its first thread
}

// maxStatus bounds a status file: its line of supplementary groups has up to 65,536 ids.
const maxStatus = 1 << 20

// ReadStatus reads the status of a process or thread, given its folder, such as /proc/1. It skips lines that a program
// can make long. The error is fs.ErrNotExist or ESRCH if the process has ended.
func ReadStatus(dir string) (Status, error) {
	file := dir + "/status"
	var p statusParser
	err := kernelfs.Lines(file, maxStatus, p.add)
	if err != nil {
		return Status{}, err
	}
	s, err := p.finish()
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return s, err
}

// A statusParser collects a Status line by line.
type statusParser struct {
	s     Status
	found uint // a bit for each field
	err   error
}

// The fields that a Status needs.
const (
	foundParent = 1 << iota
	foundThreads
	foundCPUs
	foundAll = foundParent | foundThreads | foundCPUs
)

// add parses a line and reports whether more lines are needed.
func (p *statusParser) add(line []byte) (more bool) {
	key, text, _ := bytes.Cut(line, []byte(":\t")) // the kernel escapes line breaks in the name on the first line
	value := string(text[:min(len(text), 8192)])   // a cpuset list of 1,024 ids is shorter
	switch string(key) {
	case "PPid":
		p.found |= foundParent
		p.s.Parent, p.err = strconv.Atoi(value)
	case "Threads":
		p.found |= foundThreads
		if p.s.Threads, p.err = strconv.Atoi(value); p.err == nil && p.s.Threads == 0 {
			p.err = unix.ESRCH // the process was reaped during the read
		} else if p.err == nil && p.s.Threads < 0 {
			p.err = strconv.ErrRange
		}
	case "Cpus_allowed_list":
		p.found |= foundCPUs
		p.s.CPUs, p.err = cpuset.ParsePossible(value)
	default:
		return true
	}
	if p.err != nil {
		p.err = fmt.Errorf("%s %.60q: %w", key, value, p.err)
		return false
	}
	return p.found != foundAll
}

func (p *statusParser) finish() (Status, error) {
	if p.err == nil && p.found != foundAll {
		p.err = fmt.Errorf("must have PPid, Threads and Cpus_allowed_list, has %d of them", bits.OnesCount(p.found))
	}
	if p.err != nil {
		return Status{}, p.err
	}
	return p.s, nil
}

func parseStatus(text []byte) (Status, error) {
	var p statusParser
	if err := kernelfs.LinesOf(bytes.NewReader(text), int64(len(text)), p.add); err != nil {
		return Status{}, err
	}
	return p.finish()
}

// MaxCommandLine bounds the part of a command line that CommandLine reads, in bytes. A program can rewrite its own
// command line to any length.
const MaxCommandLine = 64 << 10

// CommandLine returns the words of a process's command line, given its folder, such as /proc/1. A kernel thread has
// none. The process can change the words, and can make the read wait (see CommandText): call CommandLine only for processes of trusted
// users (see EffectiveUser). If the command line is longer than MaxCommandLine, CommandLine returns the words that are complete before this
// bound.
func CommandLine(dir string) ([]string, error) {
	text, isWhole, err := kernelfs.ReadStart(dir+"/cmdline", MaxCommandLine)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	if !isWhole && text[len(text)-1] != 0 {
		words = words[:len(words)-1]
	}
	return words, nil
}

// EffectiveUser returns the effective user ID of a process, given its directory, such as /proc/1. The owner of the directory can
// differ: root owns the directory of an undumpable process (prctl(2), PR_SET_DUMPABLE).
func EffectiveUser(dir string) (id int, err error) {
	isFound := false
	bad := kernelfs.Lines(dir+"/status", maxStatus, func(line []byte) (more bool) {
		ids, isUser := bytes.CutPrefix(line, []byte("Uid:\t"))
		if !isUser {
			return true
		}
		isFound = true
		if fields := bytes.Fields(ids); len(fields) != 4 { // real, effective, saved, of the file system
			err = fmt.Errorf("%s/status: must have four user IDs, has %.60q", dir, ids)
		} else {
			id, err = strconv.Atoi(string(fields[1]))
		}
		return false
	})
	switch {
	case bad != nil:
		return 0, bad
	case !isFound:
		return 0, fmt.Errorf("%s/status: no user id", dir)
	}
	return id, err
}

// BootID returns the kernel's random ID of this boot. It distinguishes a process from a process with the same PID before a reboot.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	id, err := kernelfs.Read("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
})
