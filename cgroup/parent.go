package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/oneline"
)

// Effective returns the CPUs and memory nodes that Candor's groups can have.
// On v1 that is what the group above Candor's has: Candor's own grows back by
// itself to that when a CPU returns.
func (t *Tree) Effective() (cpus, mems cpuset.Set, err error) {
	h := t.cpuset
	dir := h.standing()
	if !h.v2 && dir == h.parent {
		dir = filepath.Dir(dir)
	}
	for {
		cpus, mems, err = effective(dir)
		if dir == h.mount || err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && !cpus.IsEmpty() {
			break
		}
		dir = filepath.Dir(dir) // made by nobody yet, or without the controller so far
	}
	if err == nil && cpus.IsEmpty() {
		err = fmt.Errorf("CPUs %w: the cpuset of %s has no CPUs; write some into its %s", ErrUnavailable, dir, cpusFile)
	}
	return cpus, mems, err
}

// effective returns what the processes of a group may use.
func effective(dir string) (cpus, mems cpuset.Set, err error) {
	if cpus, err = readEffective(dir, cpusFile); err != nil {
		return cpus, mems, err
	}
	mems, err = readEffective(dir, memsFile)
	return cpus, mems, err
}

// Refresh makes Candor's parent group have what its own parent has. It is only
// needed on v1, after a CPU came back online, and does nothing where there is
// no group yet. Create, SetCPUs and Apply do it by themselves when they need it.
func (t *Tree) Refresh() error {
	h := t.cpuset
	if h.v2 {
		return nil // the kernel does
	}
	if is, err := isGroup(h.parent); err != nil || !is {
		return err
	}
	return inheritCpusetV1(h.parent)
}

// Groups returns the names of the groups that exist, in any hierarchy.
func (t *Tree) Groups() ([]string, error) {
	var names []string
	seen := map[string]bool{}
	for _, h := range t.all {
		dirs, err := subgroups(h.parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, dir := range dirs {
			name, ours := t.nameOf(filepath.Base(dir))
			if ours && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Remove takes Candor's parent group away. It is ErrBusy while there is a group
// or process in it, nil when there is none to remove. Of other hierarchies it takes away what runtimes have left there: the same
// path, if nothing is in it.
func (t *Tree) Remove() error {
	if t.driver == Systemd {
		return t.stopSlice()
	}
	var errs []error
	for _, h := range t.all {
		err := unix.Rmdir(h.parent)
		if err == unix.EBUSY {
			errs = append(errs, fmt.Errorf("remove %s: %w", h.parent, ErrBusy))
		} else if err != nil && err != unix.ENOENT {
			errs = append(errs, &fs.PathError{Op: "rmdir", Path: h.parent, Err: err})
		}
	}
	if len(errs) == 0 {
		for _, h := range t.others {
			_ = unix.Rmdir(h.parent) // not Candor's own: what is in use stays
		}
	}
	return oneline.Join(errs...)
}

// makeParent makes Candor's parent group and lets it have groups with both
// controllers. It returns what it made, for undo.
func (t *Tree) makeParent() (made []string, err error) {
	for _, h := range t.all {
		dirs, err := t.makePath(h)
		made = append(made, dirs...)
		if err != nil {
			removeDirs(made)
			return nil, err
		}
	}
	return made, nil
}

// makePath walks from the mount point down to the parent group.
func (t *Tree) makePath(h *hierarchy) (made []string, err error) {
	dir := h.mount
	for part := range strings.SplitSeq(h.parent[len(h.mount)+1:], "/") {
		if h.v2 {
			if err := t.enableV2(h, dir); err != nil {
				return made, err
			}
		}
		dir += "/" + part
		switch err := makeDir(dir); {
		case err == nil:
			made = append(made, dir)
			if err := t.initParent(h, dir); err != nil {
				return made, err
			}
		case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
			return made, notDelegated(err)
		case !errors.Is(err, fs.ErrExist):
			return made, err
		case h == t.cpuset && !h.v2 && dir == h.parent:
			if err := inheritCpusetV1(dir); err != nil {
				return made, err
			}
		}
	}
	if h.v2 {
		return made, t.enableV2(h, dir)
	}
	return made, nil
}

// initParent gives a group between the mount point and Candor's groups what it
// needs. Its weight is 1000 a CPU, as the kubelet does it: the kernel spreads
// a group's weight over the CPUs that it is busy on, so with the weight of one
// the containers of a big machine would starve beside any process outside.
func (t *Tree) initParent(h *hierarchy, dir string) error {
	if h == t.cpuset && !h.v2 {
		if err := inheritCpusetV1(dir); err != nil {
			return err
		}
	}
	if h != t.cpu {
		return nil
	}
	cpus, _, err := t.Effective()
	if err != nil {
		return err
	}
	return h.writeWeight(dir, h.kernelWeight(1000*cpus.Count()))
}

// enableV2 lets the groups below dir have the controllers that are on v2.
func (t *Tree) enableV2(h *hierarchy, dir string) error {
	var want []string
	if h == t.cpu {
		want = append(want, "cpu")
	}
	if h == t.cpuset {
		want = append(want, "cpuset")
	}
	err := enableControllersV2(dir, want)
	switch {
	case errors.Is(err, unix.EBUSY):
		return inTheWay(err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return notDelegated(err)
	}
	return err
}

func notDelegated(err error) error {
	return fmt.Errorf("%w with cpu and cpuset, as by Delegate=cpu cpuset: "+
		"run as root, or give a delegated group with --cgroup-parent: %w", ErrNotDelegated, err)
}

// removeDirs removes empty groups, the last made first, as far as it goes.
func removeDirs(dirs []string) {
	for i := len(dirs) - 1; i >= 0; i-- {
		_ = unix.Rmdir(dirs[i])
	}
}
