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
// again the kernel takes again, from the file: where other processes run the same one, it is in memory for them
// (madvise(2): MADV_PAGEOUT, since Linux 5.4, and MADV_DONTNEED for what others have too).
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
		if err := giveBack(m.StartAddr, m.EndAddr); err != nil {
			errs = append(errs, fmt.Errorf("%x-%x of %s: %w", m.StartAddr, m.EndAddr, program, err))
		}
	}
	return errors.Join(errs...)
}

// giveBack is for addresses at which nothing is Go's to manage, and which nobody writes to.
func giveBack(from, to uintptr) error {
	_ = advise(from, to, unix.MADV_PAGEOUT) // older kernels keep it in memory, though not as ours
	return advise(from, to, unix.MADV_DONTNEED)
}

func advise(from, to, advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, advice); errno != 0 {
		return errno
	}
	return nil
}
