// Package resident keeps a long-running program small.
package resident

import (
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Trim gives back the memory of this program's code and constants. Most of it only its start needed; what it needs
// again the kernel reads again, from the file. Where other processes run the same file, theirs stays
// (madvise(2), MADV_PAGEOUT, since Linux 5.4).
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
	var errs []error
	for _, m := range maps {
		if m.Pathname != program || m.Perms.Write {
			continue
		}
		if err := pageOut(m.StartAddr, m.EndAddr); err != nil {
			errs = append(errs, fmt.Errorf("%x-%x of %s: %w", m.StartAddr, m.EndAddr, program, err))
		}
	}
	return errors.Join(errs...)
}

// pageOut is madvise by addresses: nothing of what is there is Go's to manage.
func pageOut(from, to uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_PAGEOUT)
	if errno != 0 {
		return errno
	}
	return nil
}
