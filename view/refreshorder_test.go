package view

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRefreshLinger: the refreshes go on for a time after the last read, so that a program with a longer period gets current
// numbers.
func TestRefreshLinger(t *testing.T) {
	const active = 20 * time.Millisecond
	r := runRefresher(t, RefreshOptions{Active: active, Idle: -1, Linger: 50 * active, withoutPause: true})
	c := newCounterFile(t)
	c.add(t, r, "web")
	readCounter(t, c.Name())
	eventually(t, "the refreshes go on", func() bool { return c.refreshes.Load() >= 5 })
	eventually(t, "the refreshes end", func() bool {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return len(r.queue) == 0 && !time.Now().Before(r.views["web"].until)
	})
	if n := c.refreshes.Load(); n > 52 {
		t.Errorf("%d refreshes", n)
	}
}

// TestRefreshWithoutInotify: without an inotify instance or a watch, a view is refreshed once per idle period, until the kernel has one.
func TestRefreshWithoutInotify(t *testing.T) {
	for name, want := range map[string]struct {
		instance, watch error
		hint            string
	}{
		"no instance": {unix.EMFILE, nil, "max_user_instances"},
		"no watch":    {nil, unix.ENOSPC, "max_user_watches"},
	} {
		t.Run(name, func(t *testing.T) {
			var isOver atomic.Bool
			inotifyInit = func(flags int) (int, error) {
				if want.instance != nil && !isOver.Load() {
					return -1, want.instance
				}
				return unix.InotifyInit1(flags)
			}
			inotifyAddWatch = func(fd int, path string, mask uint32) (int, error) {
				if want.watch != nil && !isOver.Load() {
					return -1, want.watch
				}
				return unix.InotifyAddWatch(fd, path, mask)
			}
			t.Cleanup(func() { inotifyInit, inotifyAddWatch = unix.InotifyInit1, unix.InotifyAddWatch }) // after the end of the Refresher
			r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: 20 * time.Millisecond})
			c := newCounterFile(t)
			var reads atomic.Int64
			err := r.Add("web", []*os.File{c.File}, func(isRead bool) error {
				if isRead {
					reads.Add(1)
				}
				return c.refresh(isRead)
			})
			if !errors.Is(err, ErrNotWatched) || !strings.Contains(err.Error(), want.hint) {
				t.Fatalf("error %v", err)
			}
			defer r.Remove("web")
			readCounter(t, c.Name())
			eventually(t, "refreshes without reads", func() bool { return c.refreshes.Load() >= 3 })
			if reads.Load() != 0 {
				t.Error("a read was noticed")
			}
			isOver.Store(true)
			eventually(t, "a read leads to a refresh", func() bool { readCounter(t, c.Name()); return reads.Load() > 0 })
		})
	}
}

// TestRefreshSpare: a Refresher leaves inotify instances to other programs.
func TestRefreshSpare(t *testing.T) {
	free := 0
	inotifyInit = func(flags int) (int, error) {
		if free == 0 {
			return -1, unix.EMFILE
		}
		free--
		return unix.InotifyInit1(flags)
	}
	defer func() { inotifyInit = unix.InotifyInit1 }()
	for number, isBlind := range map[int]bool{0: true, 4: true, 5: false, 100: false} {
		free = number
		r, err := NewRefresher(RefreshOptions{Spare: 4})
		if err != nil {
			t.Fatal(err)
		}
		if (r.blind != nil) != isBlind {
			t.Errorf("%d instances: %v", number, r.blind)
		}
		r.Close()
	}
}

// TestRefreshPause: the pause after a refresh follows its CPU time, and is the idle period at most.
func TestRefreshPause(t *testing.T) {
	r := &Refresher{active: time.Second, idle: DefaultIdle, slowFactor: slowFactor}
	for used, want := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Millisecond: time.Second, 100 * time.Millisecond: 5 * time.Second, time.Minute: DefaultIdle} {
		if got := r.pause(used); got != want {
			t.Errorf("after %v: %v, want %v", used, got, want)
		}
	}
	used, err := threadTime(func() error { time.Sleep(100 * time.Millisecond); return errRefresh })
	if used < 0 || used > 50*time.Millisecond || err != errRefresh {
		t.Errorf("a wait of 100 ms: %v, %v", used, err)
	}
	sum := 0
	used, err = threadTime(func() error {
		for i := range 10_000_000 {
			sum += i % 7
		}
		return nil
	})
	if used <= 0 || err != nil || sum == 0 {
		t.Errorf("a computation: %v, %v", used, err)
	}
}

// TestRefreshBlocked: while the refresh of a view hangs, other views can be added and removed, and Remove of this view waits.
func TestRefreshBlocked(t *testing.T) {
	r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1})
	slow, other := newCounterFile(t), newCounterFile(t)
	started, release := make(chan bool), make(chan bool)
	if err := r.Add("slow", []*os.File{slow.File}, func(bool) error { started <- true; <-release; return nil }); err != nil {
		t.Fatal(err)
	}
	readCounter(t, slow.Name())
	<-started
	for range 10 {
		other.add(t, r, "other")
		r.Remove("other")
	}
	var isRemoved atomic.Bool
	done := make(chan bool)
	go func() {
		r.Remove("slow")
		isRemoved.Store(true)
		close(done)
	}()
	time.Sleep(20 * time.Millisecond)
	if isRemoved.Load() {
		t.Error("Remove does not wait for the refresh that runs")
	}
	close(release)
	<-done
	checkEmpty(t, r)
}

// TestRefreshRemoveOnError: OnError can remove the view of a container that has ended.
func TestRefreshRemoveOnError(t *testing.T) {
	var r *Refresher
	removed := make(chan bool)
	r = runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1, OnError: func(name string, err error) {
		if errors.Is(err, errRefresh) {
			r.Remove(name)
			close(removed)
		}
	}})
	c := newCounterFile(t)
	c.fails.Store(true)
	c.add(t, r, "web")
	readCounter(t, c.Name())
	select {
	case <-removed:
	case <-time.After(10 * time.Second):
		t.Fatal("no error is reported")
	}
	checkEmpty(t, r)
}

// TestRefreshOverflow: after the kernel has dropped events, each view is refreshed and watched again.
func TestRefreshOverflow(t *testing.T) {
	r, err := NewRefresher(RefreshOptions{Idle: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := newCounterFile(t)
	c.add(t, r, "web")
	event := make([]byte, unix.SizeofInotifyEvent)
	wd := int32(-1)
	binary.NativeEndian.PutUint32(event, uint32(wd))
	binary.NativeEndian.PutUint32(event[4:], unix.IN_Q_OVERFLOW)
	now := time.Now()
	r.handle(event, now)
	if len(r.watches) != 0 {
		t.Errorf("%d watches remain", len(r.watches))
	}
	due, failed := r.takeDue(now)
	if len(due) != 1 || len(failed) != 0 || len(r.watches) != 1 {
		t.Errorf("%d views are due, %v, %d watches", len(due), failed, len(r.watches))
	}
}
