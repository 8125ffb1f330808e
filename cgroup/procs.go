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

// attach moves a process, all its threads, into a group.
func attach(dir string, pid int) error {
	var err error
	for range 5 {
		err = writeInt(dir, procsFile, int64(pid))
		// EINVAL: the kernel is just making the process or a thread of it.
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
	case errors.Is(err, unix.EOPNOTSUPP): // v2: made, since cpu and cpuset allow it, but for threads only
		return processesError(err)
	}
	return err
}

// processesError is v2's rule that a group has either processes or groups.
func processesError(err error) error {
	return fmt.Errorf("%w: the group above has processes of its own; move them to a group below it: %w", ErrNotDelegated, err)
}

// groupDirsOf returns the directories of the groups of a process, one per hierarchy of the tree.
func (t *Tree) groupDirsOf(pid int) ([]string, error) {
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
	dirs := make([]string, len(t.all))
	for i, h := range t.all {
		path, ok := h.membership(groups)
		if !ok {
			return nil, fmt.Errorf("%s: no entry for the hierarchy mounted at %s", file, h.mount)
		}
		dirs[i] = h.dirOf(path)
	}
	return dirs, nil
}

// returnProcessesV1 puts processes back that v1 moved out of the group's cpuset, into the
// parent's, when the last of its CPUs went offline. They are still in the
// group's other hierarchies.
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
	warmTime     = 100 * time.Millisecond // time of a runtime between the request and the move
	warmInterval = 5 * time.Millisecond   // less than a grace period
)

// errNotVisible: this process's group is not seen from here.
var errNotVisible = errors.New("the group of this process is not visible here")

// WarmMoves prepares the kernel for moves of processes between groups, such as at the start of a container, and does not wait. begun
// is false if a warm-up is running; then it lasts longer.
//
// The first move in a while waits for an RCU grace period, 5 to 15 ms: after it, every fork and exit checks for moves, and for about
// the same time further moves need not wait (cgroup_threadgroup_rwsem; the mount option favordynmods makes all moves fast and forks
// slower). So this process repeatedly moves itself to its present group for a while. The first of these moves has the effects of any
// move: while it waits, groups cannot be created or removed, and clone3(CLONE_INTO_CGROUP), which needs no such wait, waits as well.
func (t *Tree) WarmMoves() (started bool) {
	t.warmUntil.Store(time.Now().Add(warmTime).UnixNano())
	if !t.isWarming.CompareAndSwap(false, true) {
		return false
	}
	go func() {
		defer t.isWarming.Store(false)
		for time.Now().UnixNano() < t.warmUntil.Load() {
			if t.selfMove() != nil {
				return // then moves wait as without a warm-up
			}
		}
	}()
	return true
}

// selfMove repeatedly moves this process to its present group for a while. It runs in a single goroutine. (It reverts a concurrent
// move of this process by another program: the kernel has no conditional move.)
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

// isMember reports whether this process is in the group of a folder.
func isMember(dir string) bool {
	if dir == "" {
		return false
	}
	self := os.Getpid()
	ok, err := anyProcess(dir, func(pid int) bool { return pid == self })
	return err == nil && ok
}

// findOwnDir returns the directory of this process's group; errNotVisible: it is not visible. In a cgroup namespace of its own, as in a
// container, /proc does not show the path.
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
