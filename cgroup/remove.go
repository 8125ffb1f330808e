package cgroup

import (
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

// Time that the kernel can take to release an empty group, and to end killed processes.
const (
	removeTimeout = 10 * time.Second
	killTimeout   = 30 * time.Second // they need CPU time to end, and the group may have little
)

// Remove removes the group and its nested groups. It returns ErrBusy if there is a process in one of them, and nil for a missing
// group.
func (g *Group) Remove() error {
	if g.err != nil {
		return g.err
	}
	if err := g.refuseForeign(); err != nil {
		return err
	}
	ok, err := g.exists()
	if err == nil && ok {
		if ok, err = g.isPopulated(); err == nil && ok {
			err = ErrBusy
		} else if err == nil || isGone(err) {
			err = g.remove()
		}
	}
	if err != nil {
		return fmt.Errorf("cannot remove cgroup %s: %w", g.name, err)
	}
	return nil
}

// remove takes all of the group's folders away.
func (g *Group) remove() error {
	if g.tree.driver == Systemd {
		if err := g.stopScope(); err != nil {
			return err
		}
	}
	wait := newWait(g.tree.remainingTime(removeTimeout))
	for _, dir := range g.dirs() {
		for {
			err := removeTree(dir, wait.deadline)
			if err == nil {
				break
			}
			// EBUSY: the kernel has not released the last process yet, or another program creates groups and processes below.
			if err != unix.EBUSY {
				return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
			}
			if !wait.next() {
				return fmt.Errorf("%s: %w", dir, ErrBusy)
			}
		}
	}
	return nil
}

// removeTree removes a directory, its nested groups first. The error is an errno: also EBUSY if there are more nested groups than it
// can remove in time.
func removeTree(dir string, until time.Time) error {
	if err := kernelfs.FaultOf(kernelfs.RemoveAccess, dir); err != nil {
		return err
	}
	err := unix.Rmdir(dir)
	if err == unix.ENOENT {
		return nil
	}
	if err != unix.EBUSY {
		return err
	}
	nested, failed := subgroups(dir)
	if failed != nil || len(nested) == 0 {
		return err
	}
	for _, child := range nested {
		if time.Now().After(until) {
			return unix.EBUSY
		}
		if err := removeTree(child, until); err != nil {
			return err
		}
	}
	return unix.Rmdir(dir)
}

// A wait sleeps between tries, longer each time, up to a deadline.
type wait struct {
	pause    time.Duration
	deadline time.Time
}

func newWait(limit time.Duration) *wait {
	return &wait{pause: 200 * time.Microsecond, deadline: time.Now().Add(limit)}
}

// next sleeps and reports whether to try again.
func (w *wait) next() bool {
	if time.Now().After(w.deadline) {
		return false
	}
	time.Sleep(w.pause)
	w.pause = min(2*w.pause, 50*time.Millisecond)
	return true
}
