package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// ErrInterrupted means that a signal arrived while another operation held the lock. Nothing was changed.
var ErrInterrupted = errors.New("interrupted")

// A lock is an exclusive lock on the state directory (flock). The kernel releases it when its holder dies.
type lock struct{ file *os.File }

// A lateError means that the lock was not available in time.
type lateError struct {
	waited time.Duration
	err    error
}

func (e *lateError) Error() string { return e.err.Error() }
func (e *lateError) Unwrap() error { return e.err }

// takeLock takes the lock, and waits for it at most for the duration patience. Waiting processes get the lock in the order of their
// arrival. takeLock takes a free lock even if ctx is done.
func takeLock(ctx context.Context, name string, patience time.Duration) (*lock, error) {
	return takeLockAt(ctx, name, os.O_CREATE, patience)
}

// takeExistingLock is like takeLock, but does not create the lock. The error is fs.ErrNotExist if there is no lock, or if
// another process has removed the lock meanwhile.
func takeExistingLock(ctx context.Context, name string, patience time.Duration) (*lock, error) {
	return takeLockAt(ctx, name, 0, patience)
}

func takeLockAt(ctx context.Context, name string, create int, patience time.Duration) (*lock, error) {
	watch := stopwatch{time.Now()}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		file, err := os.OpenFile(name, os.O_RDWR|create|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("state lock: %w", err)
		}
		if err := waitForLock(ctx, file, patience); err != nil {
			return nil, &lateError{watch.lap(), fmt.Errorf("state lock %s: %w", name, err)}
		}
		if isAt(file, name) {
			return &lock{file}, nil
		}
		file.Close() // another process has removed the file; a new file has the lock now
	}
}

// isAt reports whether an open file is still the file at its path.
func isAt(file *os.File, name string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

// tryLock takes the lock if it is free.
func tryLock(name string) (l *lock, ok bool) {
	file, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false
	}
	if flock(file, unix.LOCK_EX|unix.LOCK_NB) == nil && isAt(file, name) {
		return &lock{file}, true
	}
	file.Close()
	return nil, false
}

// waitForLock locks a file. On an error it closes the file.
func waitForLock(ctx context.Context, file *os.File, patience time.Duration) error {
	if flock(file, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- flock(file, unix.LOCK_EX) }()
	select {
	case err := <-done:
		if err != nil {
			file.Close()
		}
		return err
	case <-ctx.Done():
		err := fmt.Errorf("%[2]s still holds it after %[1]v; try again, or check that process", patience, holder(file))
		if errors.Is(ctx.Err(), context.Canceled) {
			err = fmt.Errorf("%w while %s held it", ErrInterrupted, holder(file))
		}
		// If the lock arrives late, release it at once.
		go func() {
			<-done //nolint:errcheck // the lock is not needed any more: closing the file releases it
			file.Close()
		}()
		return err
	}
}

func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *lock) release() { l.file.Close() }

// holder describes the process that holds the lock, for a message.
func holder(file *os.File) string {
	const unknown = "another process"
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return unknown
	}
	inode := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	name := unknown
	// The read of /proc/locks is bounded (maxLocks), because every user can add locks to this list.
	_ = kernelfs.Lines("/proc/locks", maxLocks, func(line []byte) (more bool) {
		// 1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF
		f := strings.Fields(string(line))
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != inode {
			return true
		}
		pid, _ := strconv.Atoi(f[4])
		name = fmt.Sprintf("process %d (%s)", pid, procfs.NameOf(pid))
		return false
	})
	return name
}

// maxLocks bounds the bytes of /proc/locks that are read for a message. It suffices for about 100,000 locks.
const maxLocks = 8 << 20
