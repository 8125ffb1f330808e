package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/kernelfs"
)

// plainKillTimeout is the time after which killAll freezes the group, because killing without a freeze did not succeed.
const plainKillTimeout = time.Second

// Kill sends a signal to every process of the group and its nested groups. SIGKILL also kills processes that start meanwhile, and Kill
// waits until the group is empty. It returns ErrBusy if a process still exists after 30 s, for example because the process hangs in the
// kernel. Other signals can miss processes that start meanwhile.
func (g *Group) Kill(sig syscall.Signal) error {
	if g.err != nil {
		return g.err
	}
	if err := g.refuseForeign(); err != nil {
		return err
	}
	var err error
	if sig == syscall.SIGKILL {
		err = g.killAll()
	} else {
		err = g.signal(sig)
	}
	return g.wrap(err)
}

// End kills all processes of the group, as Kill(SIGKILL) does, and removes the group. It returns nil for a missing group.
func (g *Group) End() error {
	err := g.Kill(syscall.SIGKILL)
	if err == nil {
		err = g.Remove()
	}
	if errors.Is(err, ErrNoGroup) {
		return nil
	}
	return err
}

// killAll kills all processes of the group and waits for their end.
func (g *Group) killAll() error {
	hasSelf := false
	self := os.Getpid()
	err := g.eachProcess(maxGroups, func(pid int) (more bool) { hasSelf = pid == self; return !hasSelf })
	if err != nil && !errors.Is(err, ErrTooMany) {
		return err
	} else if hasSelf {
		return errors.New("this process is in the group, and does not kill itself")
	}
	if err := g.ThawFreezer(); err != nil { // frozen processes do not end
		return err
	}
	if h := g.tree.reaper; h != nil && h.v2 {
		if err := killV2(g.dir(h)); err == nil {
			return g.killRemaining()
		} else if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	// This kernel cannot kill a whole group by a single write. Freeze the group only if its processes fork faster than killFor kills
	// them: a frozen group cannot fork, but would stay frozen if this process were killed meanwhile.
	if err := g.killFor(plainKillTimeout); !errors.Is(err, ErrBusy) {
		return err
	}
	thaw, err := g.freeze()
	if err != nil {
		return err
	}
	err = g.signal(syscall.SIGKILL)
	if err := errline.Join(err, thaw()); err != nil && !isGone(err) {
		return err
	}
	return g.killRemaining()
}

// killRemaining kills processes until the group is empty, for at most killTimeout.
func (g *Group) killRemaining() error { return g.killFor(killTimeout) }

// killFor kills processes until the group is empty. It returns ErrBusy if the group has processes after limit.
func (g *Group) killFor(limit time.Duration) error {
	for wait := newWait(g.tree.remainingTime(limit)); ; {
		ok, err := g.isPopulated()
		if isGone(err) || err == nil && !ok {
			return nil
		}
		if err != nil {
			return err
		}
		if !wait.next() {
			pids, _ := g.processes()
			return fmt.Errorf("processes %v do not end: %w", pids[:min(len(pids), 5)], ErrBusy)
		}
		if err := g.signal(syscall.SIGKILL); err != nil && !isGone(err) { // systemd removes an empty scope
			return err
		}
	}
}

// signal sends a signal to the present processes of the group.
func (g *Group) signal(sig syscall.Signal) error {
	pids, err := g.processes()
	if err != nil {
		return err
	}
	const batchSize = 256 // signalChecked holds a file descriptor for each process
	for part := range slices.Chunk(pids, batchSize) {
		if _, err := g.signalChecked(part, sig); err != nil {
			return err
		}
	}
	return nil
}

// signalChecked sends a signal to the processes in pids that are still in the group, and returns the number of these processes. It opens a
// pidfd for each process, and then reads the group again, so that a process of another group with a reused PID gets no signal.
func (g *Group) signalChecked(pids []int, sig syscall.Signal) (n int, err error) {
	handles := make([]*os.Process, 0, len(pids))
	for _, pid := range pids {
		p, err := os.FindProcess(pid)
		if err != nil {
			return 0, err
		}
		defer p.Release()
		handles = append(handles, p)
	}
	present, err := g.processes()
	if err != nil {
		return 0, err
	}
	for _, p := range handles {
		if _, found := slices.BinarySearch(present, p.Pid); !found {
			continue
		}
		err := p.Signal(sig)
		if err == nil {
			n++
		} else if !isEnded(err) {
			return n, fmt.Errorf("signal %v to process %d: %w", sig, p.Pid, err)
		}
	}
	return n, nil
}

// killV2 writes cgroup.kill, so that the kernel kills all processes of a group. Kernels before Linux 5.14 return ENOENT.
func killV2(dir string) error { return writeInt(dir, "cgroup.kill", 1) }

// freeze stops the group's processes, including processes that are starting. thaw resumes them. If the machine has no freezer, both do
// nothing.
func (g *Group) freeze() (thaw func() error, err error) {
	h := g.tree.reaper
	switch {
	case h == nil:
		return func() error { return nil }, nil
	case h.v2:
		return g.writeFreezer("cgroup.freeze", "1", "0", func(dir string) (bool, error) {
			events, err := read(dir, "cgroup.events")
			if err != nil {
				return false, err
			}
			n, err := parseField(events, "frozen")
			return n == 1, err
		})
	}
	return g.writeFreezer("freezer.state", "FROZEN", "THAWED", func(dir string) (bool, error) {
		state, err := read(dir, "freezer.state")
		return string(state) == "FROZEN", err
	})
}

// writeFreezer writes freezeValue to a file of the group, and waits until done returns true. It returns no error if the wait times out: a
// process that hangs in the kernel cannot be frozen, but cannot fork either.
func (g *Group) writeFreezer(file, freezeValue, thawValue string, done func(dir string) (bool, error)) (thaw func() error, err error) {
	dir := g.dir(g.tree.reaper)
	thaw = func() error {
		if err := write(dir, file, thawValue); err != nil && !isGone(err) {
			return err
		}
		return nil
	}
	if err := write(dir, file, freezeValue); err != nil {
		if isGone(err) { // the group has no folder in this hierarchy
			return thaw, nil
		}
		return nil, err
	}
	for wait := newWait(g.tree.remainingTime(removeTimeout)); ; {
		frozen, err := done(dir)
		if err != nil && !isGone(err) {
			_ = thaw()
			return nil, err
		}
		if frozen || err != nil || !wait.next() { // with an error, the group was removed
			return thaw, nil //nolint:nilerr // a removed group needs no freezing
		}
	}
}

// Frozen reports whether the group itself is frozen, for example by docker pause, as opposed to an ancestor of the group. If the machine
// has no freezer, Frozen returns false.
func (g *Group) Frozen() (bool, error) {
	h := g.tree.reaper
	if h == nil {
		return false, nil
	}
	file := "freezer.self_freezing"
	if h.v2 {
		file = "cgroup.freeze"
	}
	state, err := read(g.dir(h), file)
	if err != nil && isGone(err) {
		return false, nil
	}
	return string(state) == "1", err
}

// Thaw resumes the processes of a frozen group.
func (g *Group) Thaw() error {
	h := g.tree.reaper
	if h == nil {
		return nil
	}
	if h.v2 {
		return write(g.dir(h), "cgroup.freeze", "0")
	}
	return write(g.dir(h), "freezer.state", "THAWED")
}

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
