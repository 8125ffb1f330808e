package cgroup

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

const procsFile = "cgroup.procs"

// A container can fork many processes, and in a delegated cgroup it can create many nested groups. Therefore the searches through the
// processes and groups of a container, except isPopulated on v1, have these bounds. A search through 1,000 groups takes about 15 ms of
// CPU time.
const (
	// MaxProcesses bounds the list that Processes returns. It is the default of kernel.pid_max.
	MaxProcesses   = 1 << 15
	maxGroups      = 1 << 14  // nested groups that a search inspects, and groups that subgroups returns
	maxQuickGroups = 1 << 10  // nested groups that a frequent search inspects, such as at each scrape or operation
	maxList        = 64 << 20 // bytes of a cgroup.procs file
)

// ErrTooMany means that a search inspected the maximum number of nested groups and found no result.
var ErrTooMany = errors.New("too many nested groups")

// Processes returns the IDs of the processes in the group and its nested groups, in ascending order. It omits processes without an ID in
// this PID namespace; Populated counts them. Processes returns at most MaxProcesses IDs. It omits nested groups beyond the first 16,384,
// and nested groups with paths longer than PATH_MAX.
func (g *Group) Processes() ([]int, error) {
	if g.err != nil {
		return nil, g.err
	}
	pids, err := g.processes()
	return pids, g.wrap(err)
}

func (g *Group) processes() (pids []int, err error) {
	err = g.eachProcess(maxGroups, func(pid int) (more bool) {
		if pid != 0 {
			pids = append(pids, pid)
		}
		return len(pids) < MaxProcesses
	})
	if err != nil && !errors.Is(err, ErrTooMany) {
		return nil, err
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// FirstProcess returns the first process that the kernel lists for the group and its nested groups, or 0 if there is no process. It
// returns ErrTooMany if there are more than 1,024 groups, and the first 1,024 have no process.
func (g *Group) FirstProcess() (pid int, err error) {
	if g.err != nil {
		return 0, g.err
	}
	err = g.eachProcess(maxQuickGroups, func(id int) (more bool) { pid = id; return id == 0 })
	return pid, g.wrap(err)
}

// AnyProcess reports whether match returns true for a process of the group or its nested groups. It stops at the first such process. It
// returns ErrTooMany if there are more than 16,384 groups, and the first 16,384 have no such process.
func (g *Group) AnyProcess(match func(pid int) bool) (found bool, err error) {
	return g.anyProcess(maxGroups, match)
}

// AnyOfFirst is AnyProcess for frequent calls: it inspects only the first 1,024 groups.
func (g *Group) AnyOfFirst(match func(pid int) bool) (found bool, err error) {
	return g.anyProcess(maxQuickGroups, match)
}

func (g *Group) anyProcess(groups int, match func(pid int) bool) (found bool, err error) {
	if g.err != nil {
		return false, g.err
	}
	err = g.eachProcess(groups, func(pid int) (more bool) { found = pid != 0 && match(pid); return !found })
	if found {
		err = nil
	}
	return found, g.wrap(err)
}

// Contains reports whether a process is in the group or in a group nested in it.
func (g *Group) Contains(pid int) (bool, error) {
	return g.AnyProcess(func(id int) bool { return id == pid })
}

// eachProcess calls visit for the processes of the group and its nested groups in every hierarchy, until visit returns false. A process
// that is in the group in several hierarchies is visited several times. groups bounds the number of groups per hierarchy.
func (g *Group) eachProcess(groups int, visit func(pid int) (more bool)) error {
	missing, tooMany := 0, error(nil)
	helpers := g.helperDirs()
	for _, h := range g.tree.all {
		w := processWalk{groups: groups, visit: visit, skip: helpers}
		err := w.walk(g.dir(h))
		switch {
		case isGone(err):
			if missing++; missing == len(g.tree.all) {
				return err
			}
		case errors.Is(err, ErrTooMany):
			tooMany = err
		case err != nil:
			return err
		}
		if w.isDone {
			return nil
		}
	}
	return tooMany
}

// A processWalk visits the processes of a group and of the groups nested in it.
type processWalk struct {
	groups int // number of groups that the walk may still visit
	visit  func(pid int) (more bool)
	skip   []string // folders that the walk omits
	isDone bool     // visit returned false
}

// walk visits the processes of the group in dir and of its nested groups. The group must exist; nested groups can be removed meanwhile.
func (w *processWalk) walk(dir string) error {
	if w.groups == 0 {
		return ErrTooMany
	}
	w.groups--
	err := visitProcesses(dir, func(pid int) (more bool) {
		w.isDone = !w.visit(pid)
		return !w.isDone
	})
	if err != nil || w.isDone {
		return err
	}
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, child := range nested {
		if slices.Contains(w.skip, child) {
			continue
		}
		err := w.walk(child)
		if err != nil && !isGone(err) && !isTooDeep(err) || w.isDone {
			return err
		}
	}
	return nil
}

// isTooDeep reports whether an error means that a group has a path longer than PATH_MAX. A program can create such a group by a relative
// path.
func isTooDeep(err error) bool { return errors.Is(err, unix.ENAMETOOLONG) }

// visitProcesses calls visit for the processes directly in a group, until visit returns false. It omits the processes of nested groups.
func visitProcesses(dir string, visit func(pid int) (more bool)) error {
	var bad error
	err := kernelfs.Lines(dir+"/"+procsFile, maxList, func(line []byte) (more bool) {
		pid, err := strconv.Atoi(string(line))
		if err != nil || pid < 0 {
			bad = badContent(dir, procsFile, line)
			return false
		}
		return visit(pid)
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil // a v2 group in threaded mode: its processes are in an ancestor
	}
	if err == nil {
		err = bad
	}
	return err
}

// processesIn returns the processes directly in a group, at most MaxProcesses.
func processesIn(dir string) (pids []int, err error) {
	err = visitProcesses(dir, func(pid int) (more bool) {
		pids = append(pids, pid)
		return len(pids) < MaxProcesses
	})
	return pids, err
}

// anyProcess reports whether match returns true for any process directly in a group. Processes of nested groups do not count.
func anyProcess(dir string, match func(pid int) bool) (found bool, err error) {
	err = visitProcesses(dir, func(pid int) (more bool) { found = match(pid); return !found })
	return found, err
}

// Populated reports whether the group or a group nested in it has a process.
func (g *Group) Populated() (bool, error) {
	if g.err != nil {
		return false, g.err
	}
	ok, err := g.isPopulated()
	return ok, g.wrap(err)
}

func (g *Group) isPopulated() (bool, error) {
	missing := 0
	helpers := g.helperDirs()
	for _, h := range g.tree.all {
		ok, err := h.isPopulated(g.dir(h), helpers)
		if isGone(err) {
			if missing++; missing == len(g.tree.all) {
				return false, err
			}
			continue
		}
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// isPopulated reports whether a group has a process. On v1 it omits the folders in skip.
func (h *hierarchy) isPopulated(dir string, skip []string) (bool, error) {
	if !h.v2 {
		w := processWalk{groups: math.MaxInt, visit: func(int) (more bool) { return false }, skip: skip}
		err := w.walk(dir)
		return w.isDone, err
	}
	content, err := read(dir, "cgroup.events")
	if err != nil {
		return false, err
	}
	n, err := parseField(content, "populated")
	if err != nil {
		return false, badContent(dir, "cgroup.events", content)
	}
	return n != 0, nil
}
