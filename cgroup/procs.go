package cgroup

import (
	"errors"
	"fmt"
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
		return inTheWay(err)
	}
	return err
}

// inTheWay is v2's rule that a group has either processes or groups.
func inTheWay(err error) error {
	return fmt.Errorf("%w: the group above has processes of its own, move them to a group below it: %w", ErrNotDelegated, err)
}

// places returns the folders of the groups that a process is in, one per
// hierarchy of the tree.
func (t *Tree) places(pid int) ([]string, error) {
	file := t.proc + "/" + strconv.Itoa(pid) + "/cgroup"
	text, err := kernelfs.Read(file)
	if ended(err) {
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
			return nil, fmt.Errorf("%s: nothing about the hierarchy mounted at %s", file, h.mount)
		}
		dirs[i] = h.dirOf(path)
	}
	return dirs, nil
}

// bringBackV1 puts processes back that v1 moved out of the group's cpuset, into the
// parent's, when the last of its CPUs went offline. They are still in the
// group's other hierarchies.
func (g *Group) bringBackV1() error {
	t := g.tree
	away, err := processesIn(g.parentDir())
	if err != nil || len(away) == 0 {
		return err
	}
	isAway := map[int]bool{}
	for _, pid := range away {
		isAway[pid] = true
	}
	for _, h := range t.all {
		if h == t.cpuset {
			continue
		}
		var failed error
		w := processWalk{groups: maxGroups, visit: func(pid int) (more bool) {
			if pid == 0 || !isAway[pid] {
				return true
			}
			if err := attach(g.dir(t.cpuset), pid); err != nil && !ended(err) {
				failed = err
			}
			return failed == nil
		}}
		if err := w.below(g.dir(h)); err != nil {
			return err
		}
		return failed // the other hierarchies have the same processes
	}
	return nil
}
