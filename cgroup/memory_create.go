package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// AddMemory gives one of Candor's groups the memory controller, so that SetMemoryLimits can limit the memory of its processes. The group
// must exist. On v1, AddMemory creates the group's folder in the hierarchy of the controller and moves the process pid there; pid 0 means
// no process. On v2, it enables the controller for Candor's groups; the process is in the group already. Memory that the process has
// allocated before stays in its former group.
//
// undo reverts these changes, except for a controller that another group uses. Remove also removes the folder on v1. On an error AddMemory
// has reverted its changes.
func (g *Group) AddMemory(pid int) (undo func() error, err error) {
	h, err := g.memoryHierarchy()
	if err != nil {
		return nil, err
	}
	if err := g.refuseForeign(); err != nil {
		return nil, err
	}
	if h.v2 {
		if unix.Access(g.dir(h), unix.F_OK) != nil {
			return nil, fmt.Errorf("cgroup %s: %w", g.name, ErrNoGroup)
		}
		undo, err = g.enableMemoryV2(h)
	} else {
		undo, err = g.enterMemoryV1(h, pid)
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: no limit of memory: %w", g.name, err)
	}
	return undo, nil
}

// enableMemoryV2 enables the memory controller from the mount point down to Candor's parent group.
func (g *Group) enableMemoryV2(h *hierarchy) (undo func() error, err error) {
	var dirs []string
	undo = func() error { return disableMemoryV2(dirs) }
	dir := h.mount
	for part := range strings.SplitSeq(h.parent[len(h.mount)+1:]+"/", "/") {
		enabled, err := enableControllersV2(dir, []string{"memory"})
		switch {
		case errors.Is(err, unix.EBUSY):
			err = processesError(err)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			err = fmt.Errorf("%w below %s: %w", ErrNoMemory, dir, err)
		}
		if err != nil {
			return nil, errline.Join(err, undo())
		}
		if len(enabled) > 0 {
			dirs = append(dirs, dir)
		}
		dir += "/" + part
	}
	return undo, nil
}

// disableMemoryV2 disables the memory controller for the groups below dirs, except where such a group has limits, which the kernel would
// drop, or has the controller enabled for its own children (EBUSY). A group in dirs is above the next one.
func disableMemoryV2(dirs []string) error {
	var errs []error
	for _, dir := range slices.Backward(dirs) {
		if hasMemoryLimitsV2(dir) {
			continue
		}
		if err := write(dir, subtreeFile, "-memory"); err != nil && !isGone(err) && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, undoError(err))
		}
	}
	return errline.Join(errs...)
}

// hasMemoryLimitsV2 reports whether a group directly below dir has a setting of the memory controller.
func hasMemoryLimitsV2(dir string) bool {
	groups, err := subgroups(dir)
	for _, group := range groups {
		for file, unset := range map[string]int64{
			maxV2.limit: NoMemoryLimit, highV2.limit: NoMemoryLimit, swapV2.limit: NoMemoryLimit, "memory.min": 0, "memory.low": 0,
		} {
			if limit, missing := readBytes(group, file); missing == nil && limit != unset {
				return true
			}
		}
	}
	return err != nil
}

// enterMemoryV1 creates the folders of Candor's parent group and of the group in the hierarchy of the memory controller, and moves the
// process to the group.
func (g *Group) enterMemoryV1(h *hierarchy, pid int) (undo func() error, err error) {
	var done steps
	dir := g.dir(h)
	dirs := []string{dir}
	for above := filepath.Dir(dir); above != h.mount; above = filepath.Dir(above) {
		dirs = append(dirs, above)
	}
	for _, dir := range slices.Backward(dirs) {
		err := makeDir(dir)
		if err == nil {
			done = append(done, step{dir: dir})
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, errline.Join(err, done.run())
		}
	}
	if pid == 0 {
		return done.run, nil
	}
	hierarchies := []*hierarchy{h}
	origin, err := g.tree.groupDirsIn(hierarchies, pid)
	if err == nil {
		err = attach(dir, pid)
	}
	if err != nil {
		return nil, errline.Join(err, done.run())
	}
	return func() error {
		err := attach(origin[0], pid)
		if isEnded(err) {
			err = nil
		}
		return errline.Join(err, done.run())
	}, nil
}
