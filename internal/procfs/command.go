package procfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	maxCommandText  = 4096                   // bytes
	commandPatience = 200 * time.Millisecond // timeout of CommandText
)

// ErrSlow means that the command line of a process could not be read in time.
var ErrSlow = errors.New("its command line cannot be read now")

// CommandText returns the first 4096 bytes of a process's command line, with a NUL after each word. The kernel reads the
// words from the memory of the process and waits for the process's memory lock (mmap_lock). A process can hold this lock
// for long, for example by a page fault on a FUSE file. CommandText therefore returns ErrSlow after 200 ms.
func CommandText(pid int) (string, error) {
	return readTextInTime(fmt.Sprintf("/proc/%d/cmdline", pid), commandPatience)
}

func readTextInTime(file string, patience time.Duration) (string, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // a goroutine that waits for the lock ends when the lock is released
		f, err := os.Open(file)
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxCommandText))
		done <- result{text, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return string(r.text), r.err
	case <-timer.C:
		return "", fmt.Errorf("%s: %w", file, ErrSlow)
	}
}

// Owner returns the user of a process, or root for an undumpable process (prctl(2), PR_SET_DUMPABLE).
func Owner(pid int) (uid int, err error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return 0, err
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), nil
}
