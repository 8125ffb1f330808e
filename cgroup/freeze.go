package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/kernelfs"
)

// freezerName is the name of the nested group of a Freezer.
const freezerName = "candor-freezer"

// A Freezer stops the processes of a group for short times. It needs the freezer controller of cgroup v1: in the hierarchy of this
// controller, it moves the processes to a nested group of their group, and freezes the nested group. The group itself stays thawed, so that
// a container engine can still change and remove the group, and execute a program in the container. (runc executes no program in a frozen
// container.)
//
// On v2, the nested group would be visible to the container in /proc/self/cgroup, and programs search for their limits at this path.
// Therefore a Freezer refuses v2.
type Freezer struct {
	group *Group
	outer string // folder of the group
	inner string // folder of the nested group
}

// OpenFreezer returns the freezer of a group. It accepts the same names as ReadUsage and returns the same errors. The error is
// ErrNoFreezer if the machine does not have the freezer controller on v1, or if the group has other nested groups in the
// freezer's hierarchy. Such nested groups belong to a container engine inside the container, and that engine moves the processes
// itself.
func (t *Tree) OpenFreezer(group string) (*Freezer, error) {
	g := t.groupAt(group)
	if g.err != nil {
		return nil, g.err
	}
	if t.reaper == nil || t.reaper.v2 {
		return nil, g.wrap(fmt.Errorf("%w: the freezer controller of cgroup v1 is not mounted", ErrNoFreezer))
	}
	f := newFreezer(g)
	nested, err := subgroups(f.outer)
	switch {
	case err != nil:
		return nil, g.wrap(err)
	case slices.ContainsFunc(nested, func(dir string) bool { return dir != f.inner }):
		return nil, g.wrap(fmt.Errorf("%w: the group has nested groups of its own", ErrNoFreezer))
	}
	return f, nil
}

// newFreezer returns the freezer of a group on a machine with the freezer controller of v1.
func newFreezer(g *Group) *Freezer {
	outer := g.dir(g.tree.reaper)
	return &Freezer{group: g, outer: outer, inner: outer + "/" + freezerName}
}

// Freeze stops the processes of the group, without waiting until all of them have stopped. It moves the processes that have joined the
// group since the last call. The nested group is frozen first, so that each process stops when it is moved (freezer_attach in
// kernel/cgroup/legacy_freezer.c) and a program cannot fork faster than it is moved. On an error, all processes run. The first move of a
// process takes up to 15 ms, because the kernel waits for a grace period (cgroup_attach_lock in kernel/cgroup/cgroup.c).
func (f *Freezer) Freeze() error {
	if err := os.Mkdir(f.inner, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return f.group.wrap(err)
	}
	err := write(f.inner, freezerState, "FROZEN")
	if err == nil {
		err = moveAll(f.outer, f.inner)
	}
	if err != nil {
		return f.group.wrap(errline.Join(err, thawNested(f.inner)))
	}
	return nil
}

const freezerState = "freezer.state"

// Thaw resumes the processes.
func (f *Freezer) Thaw() error { return f.group.wrap(thawNested(f.inner)) }

// thawNested thaws the nested group in a folder, if it exists.
func thawNested(dir string) error {
	err := write(dir, freezerState, "THAWED")
	if isGone(err) {
		return nil
	}
	return err
}

// maxStatus bounds the number of processes whose status IsKilled reads.
const maxStatus = 64

// IsKilled reports whether a frozen process has a pending SIGKILL. On v1 the process ends only after it is thawed (the refrigerator of
// kernel/freezer.c does not return for signals), so the program that killed it waits.
func (f *Freezer) IsKilled() (killed bool) {
	read := 0
	_ = visitProcesses(f.inner, func(pid int) (more bool) { // no processes are found in a removed group
		status, err := kernelfs.Read(filepath.Join(f.group.tree.proc, strconv.Itoa(pid), "status"))
		killed = err == nil && hasPendingKill(status)
		read++
		return !killed && read < maxStatus
	})
	return killed
}

// hasPendingKill reports whether /proc/PID/status shows a pending SIGKILL, for the thread or the process.
func hasPendingKill(status []byte) bool {
	for _, field := range []string{"\nSigPnd:\t", "\nShdPnd:\t"} {
		_, rest, _ := bytes.Cut(status, []byte(field))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		mask, err := strconv.ParseUint(string(line), 16, 64)
		if err == nil && mask&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// Close thaws the processes, moves them back to their group and removes the nested group. It returns nil if the group was removed.
func (f *Freezer) Close() error {
	if err := thawNested(f.inner); err != nil {
		return f.group.wrap(err)
	}
	err := moveAll(f.inner, f.outer)
	if err == nil {
		if err = unix.Rmdir(f.inner); err == unix.ENOENT {
			err = nil
		}
	}
	if isGone(err) {
		return nil
	}
	return f.group.wrap(err)
}

// othersFreezer returns the Freezer that another process can have opened for the group, or nil on a machine without the freezer
// controller of v1.
func (g *Group) othersFreezer() (*Freezer, error) {
	if h := g.tree.reaper; g.err != nil || h == nil || h.v2 {
		return nil, g.err
	}
	return newFreezer(g), nil
}

// ThawFreezer thaws the processes that a Freezer of another process has stopped.
func (g *Group) ThawFreezer() error {
	f, err := g.othersFreezer()
	if f == nil {
		return err
	}
	return g.wrap(thawNested(f.inner))
}

// RemoveFreezer undoes the work of a Freezer of another process, as Close does. It returns nil if there is no nested group of a Freezer.
// The error is unix.EBUSY if a process has created groups in the nested group. Then all processes run, and the nested group remains.
func (g *Group) RemoveFreezer() error {
	f, err := g.othersFreezer()
	if f == nil {
		return err
	}
	return f.Close()
}
