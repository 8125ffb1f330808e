package cgroup

import (
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

const (
	removeTimeout = 10 * time.Second // maximum wait until the kernel releases an empty group
	killTimeout   = 30 * time.Second // maximum wait until killed processes have ended, for which they need CPU time of the group
)

// Remove removes the group and its nested groups. It returns ErrBusy if the group or a nested group has a process, and nil for a missing
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

// remove removes the group's folders in all hierarchies, and with systemd the unit. The group must have no processes.
func (g *Group) remove() error {
	if g.tree.driver == Systemd {
		if err := g.stopScope(); err != nil {
			return err
		}
	}
	if err := g.returnHelpers(); err != nil {
		return err
	}
	wait := newWait(g.tree.remainingTime(removeTimeout))
	for _, dir := range g.dirs() {
		for {
			err := removeTree(dir, wait.deadline)
			if err == nil {
				break
			}
			// EBUSY: the kernel has not released the last process yet, or another program creates processes or nested groups.
			if err != unix.EBUSY {
				return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
			}
			if !wait.next() {
				return fmt.Errorf("%s: %w", dir, ErrBusy)
			}
		}
	}
	g.removeForeignDirs(wait.deadline)
	return nil
}

// removeForeignDirs removes the folders that a container runtime created for the group in other hierarchies, such as memory. The runtime
// does not remove them if its engine lost the container, for example because conmon was killed. A folder that is in use remains.
func (g *Group) removeForeignDirs(until time.Time) {
	if g.path != "" || g.tree.driver == Systemd {
		return
	}
	for _, h := range g.tree.foreignHierarchies {
		_ = removeTree(g.dir(h), until)
	}
}

// removeTree removes the group in dir after its nested groups. The error is an errno. EBUSY can also mean that removeTree could not remove
// all nested groups before the deadline.
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

// A wait is the pause between two attempts of an operation. The pause doubles up to 50 ms, until a deadline.
type wait struct {
	pause    time.Duration
	deadline time.Time
}

func newWait(limit time.Duration) *wait {
	return &wait{pause: 200 * time.Microsecond, deadline: time.Now().Add(limit)}
}

// next sleeps for the pause and returns true. After the deadline it returns false at once.
func (w *wait) next() bool {
	if time.Now().After(w.deadline) {
		return false
	}
	time.Sleep(w.pause)
	w.pause = min(2*w.pause, 50*time.Millisecond)
	return true
}
