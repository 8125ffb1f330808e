// Package memtrim reduces the memory of a long-running program.
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

// Trim releases the memory of this program's code and constants (madvise(2), MADV_DONTNEED). The program needs most of these
// pages only at its start. If it needs a page later, the kernel maps the page again. This needs no read from disk as long as the
// page is in the page cache. Trim skips mappings with pages that differ from the file, such as the relocated read-only data of a
// position-independent executable or the breakpoints of a debugger.
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

// changedMaps returns the mappings that contain pages which differ from the mapped file (proc_pid_smaps(5)), by first address.
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

// Files returns the number of bytes in memory that are mapped from files, mostly from the executable.
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

// giveBack releases a range of pages with madvise. This is safe, because the Go runtime does not manage these pages, and no code
// writes to them.
func giveBack(from, to uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	if errno != 0 {
		return errno
	}
	return nil
}
