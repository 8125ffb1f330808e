package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

// attach moves a process with all its threads to the group in dir.
func attach(dir string, pid int) error {
	var err error
	for range 5 {
		err = writeInt(dir, procsFile, int64(pid))
		// EINVAL can mean that the kernel is creating the process or a thread of the process.
		if !errors.Is(err, unix.EINVAL) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d has ended: %w", pid, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("process %d, or the group it is in: %w to this user: %w", pid, ErrNotDelegated, err)
	case errors.Is(err, unix.EOPNOTSUPP): // v2: the parent of this group has processes, so this group can have only threads
		return processesError(err)
	}
	return err
}

// processesError explains an error that comes from a rule of v2: a group with processes cannot enable controllers for its children.
func processesError(err error) error {
	return fmt.Errorf("%w: the group above has processes of its own; move them to a group below it: %w", ErrNotDelegated, err)
}

// groupDirsOf returns the folders of the groups that a process is in, one for each hierarchy of t.all in the same order.
func (t *Tree) groupDirsOf(pid int) ([]string, error) { return t.groupDirsIn(t.all, pid) }

// groupDirsIn is like groupDirsOf, for the given hierarchies.
func (t *Tree) groupDirsIn(hierarchies []*hierarchy, pid int) ([]string, error) {
	file := t.proc + "/" + strconv.Itoa(pid) + "/cgroup"
	text, err := kernelfs.Read(file)
	if isEnded(err) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	if err != nil {
		return nil, err
	}
	groups, err := parseMembership(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	dirs := make([]string, len(hierarchies))
	for i, h := range hierarchies {
		path, ok := h.membership(groups)
		if !ok {
			return nil, fmt.Errorf("%s: no entry for the hierarchy mounted at %s", file, h.mount)
		}
		dirs[i] = h.dirOf(path)
	}
	return dirs, nil
}

// MoveToRoot moves a process to the root groups of all hierarchies, so that the process survives the end of its present groups. The
// service manager or container engine that started the process can then no longer limit or stop it.
func (t *Tree) MoveToRoot(pid int) error {
	for _, h := range slices.Concat(t.all, t.foreignHierarchies) {
		if err := attach(h.mount, pid); err != nil {
			return fmt.Errorf("cannot move process %d to the group %s: %w", pid, h.mount, err)
		}
	}
	return nil
}

// returnProcessesV1 moves displaced processes back to the group in the hierarchy of the cpuset controller. v1 moves the processes of a
// group to the parent group when the last CPU of the group goes offline. In other hierarchies the displaced processes are still in the
// group.
func (g *Group) returnProcessesV1() error {
	t := g.tree
	displaced, err := processesIn(g.parentDir())
	if err != nil || len(displaced) == 0 {
		return err
	}
	isDisplaced := map[int]bool{}
	for _, pid := range displaced {
		isDisplaced[pid] = true
	}
	for _, h := range t.all {
		if h == t.cpuset {
			continue
		}
		var failed error
		w := processWalk{groups: maxGroups, visit: func(pid int) (more bool) {
			if pid == 0 || !isDisplaced[pid] {
				return true
			}
			if err := attach(g.dir(t.cpuset), pid); err != nil && !isEnded(err) {
				failed = err
			}
			return failed == nil
		}}
		if err := w.walk(g.dir(h)); err != nil {
			return err
		}
		return failed // the other hierarchies have the same processes
	}
	return nil
}

const (
	warmTime     = 100 * time.Millisecond // a container runtime moves the container's process within this time after the engine's request
	warmInterval = 5 * time.Millisecond   // less than a grace period
)

// errNotVisible means that the group of this process is not visible below the mount point.
var errNotVisible = errors.New("the group of this process is not visible here")

// WarmMoves starts a warm-up in the background: for about 100 ms, the kernel moves processes between groups faster, for example at the
// start of a container. started is false if a warm-up is running already; then WarmMoves extends that warm-up.
//
// Without a warm-up, a move waits for an RCU grace period of 5 to 15 ms. After the grace period, every fork and exit of a process checks
// for moves. For another 5 to 15 ms, further moves need not wait (cgroup_threadgroup_rwsem in the kernel). The mount option
// favordynmods makes all moves fast, but all forks slower. Therefore a warm-up repeatedly moves this process to its present group.
//
// While the first move of a warm-up waits, the kernel cannot create or remove groups. clone3(CLONE_INTO_CGROUP), which otherwise needs no
// grace period, waits too.
func (t *Tree) WarmMoves() (started bool) {
	t.warmUntil.Store(time.Now().Add(warmTime).UnixNano())
	if !t.isWarming.CompareAndSwap(false, true) {
		return false
	}
	go func() {
		defer t.isWarming.Store(false)
		for time.Now().UnixNano() < t.warmUntil.Load() {
			if t.selfMove() != nil {
				return // no warm-up: moves wait for a grace period
			}
		}
	}()
	return true
}

// selfMove repeatedly moves this process to its present group for warmTime. At most one goroutine may run it at a time. (If another
// program moves this process meanwhile, selfMove reverts that move, because the kernel has no conditional move.)
func (t *Tree) selfMove() (err error) {
	if t.isOwnHidden {
		return errNotVisible
	}
	if !isMember(t.ownDir) {
		if t.ownDir, err = t.findOwnDir(); err != nil {
			t.isOwnHidden = errors.Is(err, errNotVisible)
			return err
		}
	}
	for end := time.Now().Add(warmTime); err == nil && time.Now().Before(end); time.Sleep(warmInterval) {
		err = writeInt(t.ownDir, procsFile, 0)
	}
	return err
}

// isMember reports whether this process is in the group in dir.
func isMember(dir string) bool {
	if dir == "" {
		return false
	}
	self := os.Getpid()
	ok, err := anyProcess(dir, func(pid int) bool { return pid == self })
	return err == nil && ok
}

// findOwnDir returns the folder of this process's group, or errNotVisible. It searches all groups if the path from /proc is wrong, because
// in a container with its own cgroup namespace, /proc does not show the path below the mount point.
func (t *Tree) findOwnDir() (ownPath string, err error) {
	if dirs, err := t.groupDirsOf(os.Getpid()); err == nil {
		if dir := dirs[slices.Index(t.all, t.cpu)]; isMember(dir) {
			return dir, nil
		}
	}
	found := errors.New("found")
	err = cmp.Or(t.cpu.walk(t.cpu.mount, func(dir string) error {
		if isMember(dir) {
			ownPath = dir
			return found
		}
		return nil
	}), errNotVisible)
	if errors.Is(err, found) {
		err = nil
	}
	return ownPath, err
}
