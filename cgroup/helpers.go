package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/kernelfs"
)

// A helper is a process that works for a container from outside: conmon copies the container's output to a log. PlaceHelper lets a helper
// use the quota and weight of the container's group. On v1, it moves the helper to a nested group in the hierarchies of cpu and cpuacct
// only:
//
//	cpu, cpuacct:  /candor/web                 processes of the container; quota, weight
//	               /candor/web/candor-helper   conmon
//	cpuset, …:     /candor/web                 processes of the container
//	               /libpod_parent/conmon       conmon
//
// A helper is no process of the container: the methods of Group do not list, count or kill a helper. A group whose last process has ended
// can be removed while a helper runs. Before the removal, ReturnHelpers moves the helper to the group that the helper has in the cpuset
// hierarchy. The kernel stores this group, so Candor needs no record that a killed candor process could lose.

// helperBase is the name of the nested group. Only processes that are absent from the group's cpuset folder count as helpers, so a
// container that creates this nested group itself cannot hide a process in it.
const helperBase = "candor-helper"

// ErrNoPlacement means that helpers cannot be placed on this machine.
var ErrNoPlacement = errors.New("cannot place helpers: needs cgroup v1, the cgroup driver cgroupfs, and a cpuset controller in a hierarchy of its own")

// placesHelpers reports whether helpers can have a group of their own in the hierarchies of cpu and cpuacct.
func (t *Tree) placesHelpers() bool {
	return t.driver == Cgroupfs && !t.cpu.v2 && !slices.Contains(t.helperHierarchies(), t.cpuset)
}

// helperHierarchies returns the hierarchies of the nested group for helpers.
func (t *Tree) helperHierarchies() []*hierarchy {
	if t.acct == nil || t.acct == t.cpu {
		return []*hierarchy{t.cpu}
	}
	return []*hierarchy{t.cpu, t.acct}
}

// helperDirs returns the folders of the nested group for helpers, or nil if helpers cannot be placed.
func (g *Group) helperDirs() (dirs []string) {
	if g.path != "" || !g.tree.placesHelpers() {
		return nil
	}
	for _, h := range g.tree.helperHierarchies() {
		dirs = append(dirs, g.dir(h)+"/"+helperBase)
	}
	return dirs
}

// PlaceHelper moves a helper of the container to a group nested in g (helperBase), so that the helper and the container share the quota and
// the weight. The error is ErrNoPlacement if the machine does not allow it, and ErrNoGroup for a missing group. On an error the helper is
// in its former group.
func (g *Group) PlaceHelper(pid int) error {
	if g.err != nil {
		return g.err
	}
	if err := g.refuseForeign(); err != nil {
		return err
	}
	dirs := g.helperDirs()
	if dirs == nil {
		return ErrNoPlacement
	}
	return g.wrap(g.placeHelper(dirs, pid))
}

func (g *Group) placeHelper(dirs []string, pid int) error {
	for _, dir := range dirs {
		if err := makeDir(dir); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, dir := range dirs {
		if err := attach(dir, pid); err != nil {
			return errline.Join(err, g.returnHelpers())
		}
	}
	return nil
}

// ReturnHelpers moves the helpers of the container back to their own groups, and removes the nested group. It returns nil if there is no
// nested group.
func (g *Group) ReturnHelpers() error {
	if g.err != nil {
		return g.err
	}
	return g.wrap(g.returnHelpers())
}

func (g *Group) returnHelpers() error {
	for _, dir := range g.helperDirs() {
		if ok, err := isGroup(dir); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		wait := newWait(g.tree.remainingTime(removeTimeout))
		for {
			if err := g.tree.returnProcesses(dir); err != nil {
				return err
			}
			err := removeTree(dir, wait.deadline)
			if err == nil {
				break
			}
			if !wait.next() { // a helper can fork meanwhile
				return fmt.Errorf("%s: %w", dir, err)
			}
		}
	}
	return nil
}

// HasHelpers reports whether the group has a nested group for helpers.
func (g *Group) HasHelpers() bool {
	return g.err == nil && slices.ContainsFunc(g.helperDirs(), func(dir string) bool { ok, err := isGroup(dir); return ok && err == nil })
}

// returnProcesses moves the processes of a folder in the cpu or cpuacct hierarchy to another group of this hierarchy: the group with the
// same path as the process's cpuset group. If there is no such group, the process moves to the root group.
func (t *Tree) returnProcesses(dir string) error {
	pids, err := processesIn(dir)
	if isGone(err) {
		return nil
	}
	for _, pid := range pids {
		path, err := t.cpusetPathOf(pid)
		if isEnded(err) {
			continue
		}
		if err == nil {
			err = t.returnProcess(dir, path, pid)
		}
		if err != nil && !isEnded(err) {
			return err
		}
	}
	return err
}

func (t *Tree) returnProcess(dir, path string, pid int) error {
	for _, h := range t.helperHierarchies() {
		if !isWithin(dir, h.mount) {
			continue
		}
		origin := h.dirOf(path)
		if ok, err := isGroup(origin); err != nil || !ok {
			origin = h.mount
		}
		return attach(origin, pid)
	}
	return nil
}

// cpusetPathOf returns the path of a process's group in the cpuset hierarchy.
func (t *Tree) cpusetPathOf(pid int) (string, error) {
	text, err := kernelfs.Read(filepath.Join(t.proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	groups, err := parseMembership(text)
	if err != nil {
		return "", err
	}
	path, ok := t.cpuset.membership(groups)
	if !ok {
		return "", fmt.Errorf("process %d: no entry for the hierarchy mounted at %s", pid, t.cpuset.mount)
	}
	return path, nil
}
