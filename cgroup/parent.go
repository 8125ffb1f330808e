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
	"github.com/candor-project/candor/internal/errline"
)

// Effective returns the CPUs and memory nodes that Candor's groups can have. On v1 it reads the parent of Candor's parent group,
// because on v1 the parent group lacks a CPU that was offline until Refresh adds it.
func (t *Tree) Effective() (cpus, mems cpuset.Set, err error) {
	h := t.cpuset
	dir := h.existingAncestor()
	if !h.v2 && dir == h.parent {
		dir = filepath.Dir(dir)
	}
	for {
		cpus, mems, err = t.readEffectiveSets(dir)
		if dir == h.mount || err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && !cpus.IsEmpty() {
			break
		}
		dir = filepath.Dir(dir) // the group does not exist yet, or lacks the controller
	}
	if err == nil && !h.v2 {
		cpus, mems, err = t.availableToParentV1(dir, cpus, mems)
	}
	if err == nil && cpus.IsEmpty() {
		err = fmt.Errorf("CPUs %w: the cpuset of %s has no CPUs; write some into its %s", ErrUnavailable, dir, cpusFile)
	}
	return cpus, mems, err
}

// availableToParentV1 removes the exclusive sets of foreign groups from cpus and mems, because Candor's parent group cannot have them.
// above is the folder of an existing ancestor of the parent group; cpus and mems are the sets of that ancestor.
func (t *Tree) availableToParentV1(above string, cpus, mems cpuset.Set) (cpuset.Set, cpuset.Set, error) {
	part, _, _ := strings.Cut(strings.TrimPrefix(t.cpuset.parent, above+"/"), "/")
	dir := above + "/" + part
	remaining := [2]cpuset.Set{cpus, mems}
	for i, file := range []string{cpusFile, memsFile} {
		now, err := t.readSet(dir, file)
		if err != nil && !isGone(err) {
			return cpus, mems, err
		}
		if remaining[i], err = t.excludeReservedV1(dir, file, remaining[i], now); err != nil {
			return cpus, mems, err
		}
	}
	return remaining[0], remaining[1], nil
}

// readEffectiveSets returns the CPUs and memory nodes that the processes of the group in dir can use.
func (t *Tree) readEffectiveSets(dir string) (cpus, mems cpuset.Set, err error) {
	if cpus, err = t.readEffective(dir, cpusFile); err != nil {
		return cpus, mems, err
	}
	mems, err = t.readEffective(dir, memsFile)
	return cpus, mems, err
}

// Refresh gives Candor's parent group the CPUs and memory nodes of its own parent. Only v1 needs this, after a CPU came back online.
// Refresh does nothing if the parent group does not exist. Create, SetCPUs and Apply call Refresh when they need it.
func (t *Tree) Refresh() error {
	h := t.cpuset
	if h.v2 {
		return nil // the kernel updates the parent group itself
	}
	if ok, err := isGroup(h.parent); err != nil || !ok {
		return err
	}
	return t.inheritCpusetV1(h.parent)
}

// Groups returns the sorted names of Candor's groups that exist in any hierarchy.
func (t *Tree) Groups() ([]string, error) {
	var names []string
	seen := map[string]bool{}
	for _, h := range t.all {
		dirs, err := subgroups(h.parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, dir := range dirs {
			name, isOurs := t.nameOf(filepath.Base(dir))
			if isOurs && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Remove removes Candor's parent group. It returns ErrBusy while the parent group has a nested group or a process, and nil if there is no
// parent group. In hierarchies that Candor does not use, Remove removes an empty group with the same path, which a container runtime
// has created.
func (t *Tree) Remove() error {
	if t.driver == Systemd {
		return t.stopSlice()
	}
	var errs []error
	for _, h := range t.all {
		err := unix.Rmdir(h.parent)
		if err == unix.EBUSY {
			errs = append(errs, fmt.Errorf("cannot remove %s: %w", h.parent, ErrBusy))
		} else if err != nil && err != unix.ENOENT {
			errs = append(errs, &fs.PathError{Op: "rmdir", Path: h.parent, Err: err})
		}
	}
	if len(errs) == 0 {
		for _, h := range t.foreignHierarchies {
			_ = unix.Rmdir(h.parent) // fails while a runtime uses the group
		}
	}
	return errline.Join(errs...)
}

// makeParent creates Candor's parent group and enables the cpu and cpuset controllers for its children. It returns the steps that undo
// these changes. On an error makeParent has undone its changes.
func (t *Tree) makeParent() (undo steps, err error) {
	for range parentRetries {
		if undo, err = t.tryParent(); !isGone(err) {
			break
		}
	}
	return undo, err
}

// parentRetries bounds the attempts to create Candor's parent group while another program removes an ancestor of the parent group. A failed
// candor process with another parent group can cause this, because it removes the ancestors of its parent group that it created.
const parentRetries = 10

func (t *Tree) tryParent() (undo steps, err error) {
	for _, h := range t.all {
		if err := t.checkDomains(h); err != nil {
			return nil, err
		}
	}
	for _, h := range t.all {
		done, err := t.makePath(h)
		undo = append(undo, done...)
		if err != nil {
			return nil, errline.Join(err, undo.run())
		}
	}
	return undo, nil
}

// makePath creates the groups from the mount point down to Candor's parent group in a hierarchy. It returns the steps that undo its
// changes, also on an error.
func (t *Tree) makePath(h *hierarchy) (undo steps, err error) {
	dir := h.mount
	for part := range strings.SplitSeq(h.parent[len(h.mount)+1:], "/") {
		if err := t.enableV2(h, dir, &undo); err != nil {
			return undo, err
		}
		dir += "/" + part
		switch err := makeDir(dir); {
		case err == nil:
			undo = append(undo, step{dir: dir})
			if err := t.initParent(h, dir); err != nil {
				return undo, err
			}
		case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
			return undo, delegationError(err)
		case !errors.Is(err, fs.ErrExist):
			return undo, err
		case h == t.cpuset && !h.v2:
			inherited, err := t.inheritExistingV1(dir)
			undo = append(undo, inherited...)
			if err != nil {
				return undo, err
			}
		}
	}
	return undo, t.enableV2(h, dir, &undo)
}

// inheritExistingV1 gives the existing group in dir the CPUs and memory nodes of its parent, if the group is Candor's parent group or has
// an empty cpuset. A group with an empty cpuset has no processes, and no group below it can have CPUs.
func (t *Tree) inheritExistingV1(dir string) (undo []step, err error) {
	if dir != t.cpuset.parent {
		cpus, err := t.readSet(dir, cpusFile)
		if err != nil || !cpus.IsEmpty() {
			return nil, err
		}
	}
	return t.inheritRecordedV1(dir)
}

// initParent sets the CPUs and the weight of a new group between the mount point and Candor's groups. The weight is 1000 per CPU, as
// for the kubelet's groups. The kernel divides the weight of a group among the CPUs on which the group is busy. So with a weight of
// 1000, the containers of a big machine would get almost no time on a CPU that another process uses.
func (t *Tree) initParent(h *hierarchy, dir string) error {
	if h == t.cpuset && !h.v2 {
		if err := t.inheritCpusetV1(dir); err != nil {
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

// enableV2 enables the controllers cpu and cpuset for the groups below dir, as far as the v2 hierarchy h has these controllers.
// It appends to undo a step that reverts the change.
func (t *Tree) enableV2(h *hierarchy, dir string, undo *steps) error {
	if !h.v2 {
		return nil
	}
	var needed []string
	if h == t.cpu {
		needed = append(needed, "cpu")
	}
	if h == t.cpuset {
		needed = append(needed, "cpuset")
	}
	enabled, err := enableControllersV2(dir, needed)
	switch {
	case errors.Is(err, unix.EBUSY):
		return processesError(err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return delegationError(err)
	}
	if len(enabled) > 0 {
		*undo = append(*undo, step{dir, subtreeFile, "-" + strings.Join(enabled, " -")})
	}
	return err
}

func delegationError(err error) error {
	return fmt.Errorf("%w with cpu and cpuset, as by Delegate=cpu cpuset; "+
		"run as root, or choose a delegated group with --cgroup-parent: %w", ErrNotDelegated, err)
}

// A step undoes one change to Candor's parent group or to an ancestor of the parent group. It writes a value to a file of the
// group in dir or, if file is "", removes the group. If Candor cannot create a group, or the group's program does not start, the
// steps restore the groups of the machine.
type step struct{ dir, file, value string }

// steps are in the order of the changes. run executes them in reverse order.
type steps []step

// run undoes all changes. It keeps groups and controllers that another program has started to use.
func (s steps) run() error {
	var errs []error
	for _, step := range slices.Backward(s) {
		var err error
		if step.file == subtreeFile && usesControllersV2(step.dir) {
			continue
		} else if step.file == "" {
			if failed := unix.Rmdir(step.dir); failed != nil {
				err = &fs.PathError{Op: "rmdir", Path: step.dir, Err: failed}
			}
		} else {
			err = write(step.dir, step.file, step.value)
		}
		if err != nil && !isGone(err) && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, undoError(err))
		}
	}
	return errline.Join(errs...)
}

// usesControllersV2 reports whether a group below dir has settings of the cpu or the cpuset controller. The kernel would drop these
// settings if the controllers were disabled.
func usesControllersV2(dir string) bool {
	groups, err := subgroups(dir)
	for _, group := range groups {
		weight, missing := readInt(group, "cpu.weight")
		if missing == nil && weight != defaultWeightV2 {
			return true
		}
		for _, file := range []string{"cpu.max", cpusFile, memsFile, subtreeFile} {
			value, err := read(group, file)
			if err == nil && len(value) > 0 && !strings.HasPrefix(string(value), "max ") {
				return true
			}
		}
	}
	return err != nil
}

// recordParent stores the steps that undo the changes of the last Create to Candor's parent group and its ancestors.
func (t *Tree) recordParent(undo steps) { t.parentUndo.Store(&undo) }

// RestoreParent undoes the changes of the last Create to Candor's parent group and its ancestors. It removes the groups that Create
// created, disables the controllers that Create enabled, and restores a changed cpuset. Groups and controllers in use stay. RestoreParent
// is for a container whose program did not start. The caller must have removed the container's group, and must hold the lock of the state
// so that no other run creates groups meanwhile.
func (t *Tree) RestoreParent() error {
	if t.newSlice.Swap(false) {
		return t.stopNewSlice(false)
	}
	undo := t.parentUndo.Swap(nil)
	if undo == nil {
		return nil
	}
	if names, err := t.Groups(); err != nil || len(names) > 0 {
		return err // another run has created a group meanwhile
	}
	return undo.run()
}

// stopNewSlice stops Candor's slice unless the slice existed before the last Create. systemd keeps a slice when its last scope ends.
func (t *Tree) stopNewSlice(existedBefore bool) error {
	if existedBefore {
		return nil
	}
	if err := t.stopSlice(); !errors.Is(err, ErrBusy) {
		return err
	}
	return nil
}

// checkDomains returns an error if cgroup v2 does not allow processes in groups below Candor's parent group. The reason is a group on the
// path to the parent group: a threaded group, or a group with processes, such as the root of a container's cgroup namespace. Without this
// check, the kernel would still enable cpu and cpuset below a group with processes, because the two controllers support threads. But the
// kernel would turn the group into a threaded domain, in which no container can start.
func (t *Tree) checkDomains(h *hierarchy) error {
	if !h.v2 || h != t.cpu && h != t.cpuset {
		return nil
	}
	var dir strings.Builder
	dir.WriteString(h.mount)
	for part := range strings.SplitSeq(h.parent[len(h.mount):], "/") {
		if part != "" {
			dir.WriteString("/" + part)
		}
		kind, err := read(dir.String(), "cgroup.type")
		switch {
		case isGone(err) && dir.String() == h.mount: // the root of the machine
			continue
		case isGone(err): // not created yet
			return nil
		case err != nil:
			return err
		}
		pids, err := processesIn(dir.String())
		if err != nil {
			return err
		}
		if len(pids) > 0 || string(kind) != "domain" {
			return t.notDomain(h, dir.String(), string(kind), len(pids))
		}
	}
	return nil
}

// notDomain returns the error of checkDomains for a group, with a remedy.
func (t *Tree) notDomain(h *hierarchy, dir, kind string, processes int) error {
	where := h.pathOf(dir)
	if dir == h.mount {
		where = "/ (the root of this cgroup namespace, " + dir + ")"
	}
	if processes == 0 || kind != "domain" && kind != "domain threaded" {
		return fmt.Errorf("cgroup %s: %w: its type is %q, so that no group below it can have processes; put Candor's groups elsewhere with --cgroup-parent",
			where, ErrNotDelegated, kind)
	}
	return fmt.Errorf("cgroup %s: %w: it has processes of its own (%d), and cgroup v2 limits no groups beside processes; move them into a child first, such as %s/init",
		where, ErrNotDelegated, processes, dir)
}
