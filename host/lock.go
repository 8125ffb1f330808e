package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A lock is an exclusive lock on the state directory. The kernel drops it when
// its holder dies, in whatever way.
type lock struct{ file *os.File }

// takeLock waits for the lock, first come first served, for patience at most.
func takeLock(ctx context.Context, name string, patience time.Duration) (*lock, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state lock: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- flock(file) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case err = <-done:
		if err == nil {
			return &lock{file}, nil
		}
		file.Close()
	case <-ctx.Done():
		err = ctx.Err()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("waited %v, and %s has it: try again, or see what that waits for", patience, holder(file))
		}
		// Should the lock come late, it is given back at once.
		go func() { <-done; file.Close() }()
	}
	return nil, fmt.Errorf("state lock %s: %w", name, err)
}

func flock(file *os.File) error {
	for {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *lock) release() { l.file.Close() }

// holder names the process that has the lock, for a message.
func holder(file *os.File) string {
	const unknown = "another process"
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return unknown
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return unknown
	}
	inode := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	// 1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != inode {
			continue
		}
		pid, _ := strconv.Atoi(f[4])
		comm, _ := os.ReadFile(filepath.Join("/proc", f[4], "comm"))
		return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(comm)))
	}
	return unknown
}
