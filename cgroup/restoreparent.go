package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// A run that fails leaves the groups of the machine as they were. Candor records each change on the way to its parent
// group, and undoes these changes if the run fails.

// A step undoes one change: it writes a value to a file of a group or, without a file, removes the group.
type step struct{ dir, file, value string }

// steps are in the order of the changes, so that they are run backwards.
type steps []step

// run undoes all changes. Groups and controllers that are in use by now stay.
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
		if err != nil && !gone(err) && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, notUndone(err))
		}
	}
	return errline.Join(errs...)
}

// usesControllersV2 reports whether a group below dir has settings of the cpu or the cpuset controller. To take
// these controllers away would drop the settings.
func usesControllersV2(dir string) bool {
	groups, err := subgroups(dir)
	for _, group := range groups {
		weight, missing := readInt(group, "cpu.weight")
		if missing == nil && weight != weightDefault {
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

// recordParent stores the steps that undo the changes of the last Create on the way to Candor's parent group.
func (t *Tree) recordParent(undo steps) { t.parentUndo.Store(&undo) }

// RestoreParent undoes the changes of the last Create of this tree on the way to Candor's parent group: it removes the
// created groups, disables the enabled controllers and restores a changed cpuset. It is for a container whose program did
// not start. Groups and controllers in use stay. The caller must have removed the container's group, and must hold the lock of
// the state, so that no other run creates groups meanwhile.
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

// stopNewSlice stops Candor's slice, which systemd keeps when its last scope ends, if it was not there before.
func (t *Tree) stopNewSlice(before bool) error {
	if before {
		return nil
	}
	if err := t.stopSlice(); !errors.Is(err, ErrBusy) {
		return err
	}
	return nil
}

// checkDomains refuses, before anything is changed, a way to Candor's parent on which cgroup v2 lets no group have
// processes: through a group with processes of its own, such as the root of a container's cgroup namespace, or a
// threaded one. The kernel would enable cpu and cpuset even so, since threads can have them, and make the group a
// threaded domain, in which no container can be started any more.
func (t *Tree) checkDomains(h *hierarchy) error {
	if !h.v2 || h != t.cpu && h != t.cpuset {
		return nil
	}
	dir := h.mount
	for part := range strings.SplitSeq(h.parent[len(h.mount):], "/") {
		if part != "" {
			dir += "/" + part
		}
		kind, err := read(dir, "cgroup.type")
		switch {
		case gone(err) && dir == h.mount: // the root of the machine
			continue
		case gone(err): // not created yet
			return nil
		case err != nil:
			return err
		}
		pids, err := processesIn(dir)
		if err != nil {
			return err
		}
		if len(pids) > 0 || string(kind) != "domain" {
			return t.notDomain(h, dir, string(kind), len(pids))
		}
	}
	return nil
}

// notDomain returns the error for a group below which no group can have processes, with the remedy.
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
