package host

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A timeout on the lock names the holder.
func TestLockHeld(t *testing.T) {
	l := newLab(t)
	l.nudge()
	held, err := takeLock(ctx, l.store.LockFile(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_, err = takeLock(ctx, l.store.LockFile(), 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "process "+itoa(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := takeLock(canceled, l.store.LockFile(), time.Minute); !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	held.release()
	again, err := takeLock(ctx, l.store.LockFile(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}

// TestLockHeldAmongMany: holder finds the holder of a lock among many locks. Every user can add locks to the
// list that it searches.
func TestLockHeldAmongMany(t *testing.T) {
	dir := t.TempDir()
	var held []*lock
	defer func() {
		for _, l := range held {
			l.release()
		}
	}()
	for i := range 500 {
		l, err := takeLock(ctx, dir+"/"+itoa(i), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	for _, i := range []int{0, 499} {
		if got := holder(held[i].file); !strings.HasPrefix(got, "process "+itoa(os.Getpid())+" (") {
			t.Errorf("lock %d is held by %s", i, got)
		}
	}
	free, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	if got := holder(free); got != "another process" {
		t.Errorf("no lock is held by %s", got)
	}
}

// If the lock file is removed while a process waits for it, that process waits for the new file with the same name.
func TestLockRemoved(t *testing.T) {
	l := newLab(t)
	l.nudge()
	name := l.store.LockFile()
	first, err := takeLock(ctx, name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	waiter := make(chan *lock, 1)
	go func() {
		held, err := takeLock(ctx, name, time.Minute)
		if err != nil {
			t.Error(err)
		}
		waiter <- held
	}()
	waitedFor(t, first.file, waiter)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	second, err := takeLock(ctx, name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	first.release()
	waitedFor(t, second.file, waiter)
	second.release()
	(<-waiter).release()
}

// waitedFor waits until a process waits for the lock on a file.
func waitedFor(t *testing.T, file *os.File, early <-chan *lock) {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	inode := ":" + strconv.FormatUint(stat.Ino, 10) + " "
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
		select {
		case <-early:
			t.Fatal("two have the lock")
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("no process waits for the lock")
		}
	}
}
