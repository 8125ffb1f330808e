// Package memtrim keeps a long-running program small.
package memtrim

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Trim releases the memory of this program's code and constants (madvise(2), MADV_DONTNEED). Only the start of the program
// needs most of these pages. The program finds needed pages in the page cache again, while the kernel retains them, without a
// read from disk. Pages that differ from the file stay: relocated read-only data of a position-independent executable, and the
// breakpoints of a debugger.
func Trim() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	self, err := procfs.Self()
	if err != nil {
		return err
	}
	maps, err := self.ProcMaps()
	if err != nil {
		return err
	}
	changed, err := changedMaps()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range maps {
		if m.Pathname != program || m.Perms.Write || changed[m.StartAddr] {
			continue
		}
		if err := giveBack(m.StartAddr, m.EndAddr); err != nil {
			errs = append(errs, fmt.Errorf("%x-%x of %s: %w", m.StartAddr, m.EndAddr, program, err))
		}
	}
	return errors.Join(errs...)
}

// changedMaps are the mappings, by their first addresses, that have pages which are in no file (proc_pid_smaps(5)).
func changedMaps() (map[uintptr]bool, error) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	changed, start := map[uintptr]bool{}, uintptr(0)
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "Anonymous:", "Swap:":
			if strings.TrimSpace(value) != "0 kB" {
				changed[start] = true
			}
		default:
			if from, _, isRange := strings.Cut(key, "-"); isRange {
				addr, err := strconv.ParseUint(from, 16, 64)
				if err != nil {
					return nil, fmt.Errorf("/proc/self/smaps: %w", err)
				}
				start = uintptr(addr)
			}
		}
	}
	return changed, nil
}

// Files returns the bytes of files that this program has in memory, mostly of its executable.
func Files() (int, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, all, files int
	if _, err := fmt.Sscan(string(text), &size, &all, &files); err != nil {
		return 0, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return files * os.Getpagesize(), nil
}

// giveBack calls madvise with addresses. The Go runtime does not manage these pages, and no code writes to them.
func giveBack(from, to uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	if errno != 0 {
		return errno
	}
	return nil
}
