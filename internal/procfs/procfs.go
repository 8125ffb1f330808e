// Package procfs reads what several rooms ask of /proc: processes, mounts, the boot.
// It reads, and knows nothing of containers.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/moby/sys/mountinfo"
)

// A Stat is what /proc/PID/stat says of a process (proc_pid_stat(5)).
type Stat struct {
	State byte   // 'Z' is a zombie, 'X' dead
	Flags uint64 // the kernel's PF_ flags
	Start uint64 // clock ticks since boot
}

// kernelThread is PF_KTHREAD.
const kernelThread = 0x00200000

// IsKernelThread reports whether the process is no program's.
func (s Stat) IsKernelThread() bool { return s.Flags&kernelThread != 0 }

// ReadStat reads a process's stat. The error is fs.ErrNotExist or ESRCH if it has gone.
func ReadStat(pid int) (Stat, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return s, err
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
	s.Start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return s, err
}

// BootID returns the kernel's name for this boot.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// Mounts reads the text of a mountinfo file, oldest mount first.
func Mounts(text []byte) ([]*mountinfo.Info, error) {
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	return mounts, nil
}
