package view

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRefreshLinger: the refreshes go on for a time after the last read, so that a program with a longer period gets current
// numbers.
func TestRefreshLinger(t *testing.T) {
	const active = 20 * time.Millisecond
	r := runRefresher(t, RefreshOptions{Active: active, Idle: -1, Linger: 10 * active})
	c := newCounterFile(t)
	c.add(t, r, "web")
	readCounter(t, c.Name())
	eventually(t, "the refreshes go on", func() bool { return c.refreshes.Load() >= 5 })
	time.Sleep(20 * active)
	n := c.refreshes.Load()
	time.Sleep(10 * active)
	if more := c.refreshes.Load() - n; more != 0 || n > 12 {
		t.Errorf("%d refreshes, and %d after the end", n, more)
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
