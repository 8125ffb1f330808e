package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const procsFile = "cgroup.procs"

// Processes returns the ids of the group's processes, nested groups included,
// in rising order. Processes that this place has no id for (other pid
// namespaces) are left out; Populated counts them.
func (g *Group) Processes() ([]int, error) {
	if g.err != nil {
		return nil, g.err
	}
	pids, err := g.processes()
	return pids, g.wrap(err)
}

func (g *Group) processes() ([]int, error) {
	var pids []int
	missing := 0
	for _, h := range g.tree.all {
		found, err := processesBelow(g.dir(h), pids)
		if gone(err) {
			if missing++; missing == len(g.tree.all) {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		pids = found
	}
	slices.Sort(pids)
	pids = slices.Compact(pids)
	if len(pids) > 0 && pids[0] == 0 {
		pids = pids[1:]
	}
	return pids, nil
}

// processesBelow appends the processes of a group and of the groups nested in
// it. The group itself must be there; nested ones may go meanwhile.
func processesBelow(dir string, pids []int) ([]int, error) {
	pids, err := processesIn(dir, pids)
	if err != nil {
		return nil, err
	}
	nested, err := subgroups(dir)
	if err != nil {
		return nil, err
	}
	for _, child := range nested {
		more, err := processesBelow(child, pids)
		if err == nil {
			pids = more
		} else if !gone(err) {
			return nil, err
		}
	}
	return pids, nil
}

// processesIn appends the processes of one group.
func processesIn(dir string, pids []int) ([]int, error) {
	content, err := read(dir, procsFile)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return pids, nil // a v2 group of threads: its processes are in the group above
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(content) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		pid, err := strconv.Atoi(string(line))
		if err != nil || pid < 0 {
			return nil, badContent(dir, procsFile, line)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Populated reports whether the group or a group nested in it has a process.
func (g *Group) Populated() (bool, error) {
	if g.err != nil {
		return false, g.err
	}
	is, err := g.populated()
	return is, g.wrap(err)
}

func (g *Group) populated() (bool, error) {
	missing := 0
	for _, h := range g.tree.all {
		is, err := h.populated(g.dir(h))
		if gone(err) {
			if missing++; missing == len(g.tree.all) {
				return false, err
			}
			continue
		}
		if is || err != nil {
			return is, err
		}
	}
	return false, nil
}

func (h *hierarchy) populated(dir string) (bool, error) {
	if !h.v2 {
		pids, err := processesBelow(dir, nil)
		return len(pids) > 0, err
	}
	content, err := read(dir, "cgroup.events")
	if err != nil {
		return false, err
	}
	n, err := field(content, "populated")
	if err != nil {
		return false, badContent(dir, "cgroup.events", content)
	}
	return n != 0, nil
}

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
	text, err := os.ReadFile(file)
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
	away, err := processesIn(g.parentDir(), nil)
	if err != nil || len(away) == 0 {
		return err
	}
	for _, h := range t.all {
		if h == t.cpuset {
			continue
		}
		ours, err := processesBelow(g.dir(h), nil)
		if err != nil {
			return err
		}
		for _, pid := range ours {
			if pid == 0 || !slices.Contains(away, pid) {
				continue
			}
			if err := attach(g.dir(t.cpuset), pid); err != nil && !ended(err) {
				return err
			}
		}
		return nil // the others would say the same
	}
	return nil
}
