package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/candor-project/candor/cgroup"
)

// ErrElsewhere: a runtime has made a container's group, but not where it was to be.
var ErrElsewhere = errors.New("its group is not where Candor wants it")

// Prepare makes the empty group of a pending grant, for a runtime that puts the container
// into it: one that made it itself, a hierarchy after the other, would be taken for half a group
// meanwhile. With systemd it does nothing: there the runtime asks systemd for it.
func (h *Host) Prepare(ctx context.Context, name string) error {
	if h.tree.Driver() == cgroup.Systemd {
		return nil
	}
	return h.operate(ctx, func(op *operation) error {
		if op.info[name] == nil {
			return unknown(name)
		}
		op.newcomer = &newcomer{name: name}
		return nil
	})
}

// OCIPath is where a runtime has to make a container's group, as linux.cgroupsPath of
// its configuration writes it; systemd says in which of the two forms.
func (h *Host) OCIPath(name string) (path string, systemd bool) {
	return h.tree.OCIPath(name), h.tree.Driver() == cgroup.Systemd
}

// ExpectMoves has the kernel get ready for a runtime's moving a container's first process into its groups, so that the runtime
// waits less for that. It does not wait itself, and does nothing for a host that plans only.
func (h *Host) ExpectMoves() {
	if !h.planOnly {
		_ = h.tree.ExpectMoves()
	}
}

// Started tells that a runtime has made the group of a pending grant, with a first
// process that has not begun its program. When Started returns, the group has
// what the grant says now: others may have moved it since it was planned. ErrElsewhere: the
// process is in no group of that name.
func (h *Host) Started(ctx context.Context, name string, pid int) error {
	first, err := processOf(pid)
	if err != nil {
		return err
	}
	return h.operate(ctx, func(op *operation) error {
		g := op.info[name]
		if g == nil {
			return unknown(name)
		}
		op.subject = name
		if err := op.checkPlace(name, cmp.Or(g.Engine.Cgroup, op.tree.OCIPath(name)), pid); err != nil {
			return err
		}
		g.State, g.Deadline, g.Main = Running, 0, first
		return op.store.saveRequest(g)
	})
}

// checkPlace refuses a container whose processes are not in the group that it is to have; pid, if not 0, is one of them.
func (op *operation) checkPlace(name, path string, pid int) error {
	k := op.groups[name]
	if k == nil || !k.populated {
		return fmt.Errorf("%s: %w (not %s): want the engine's cgroup driver and Candor's to be the same", name, ErrElsewhere, path)
	}
	if pid == 0 {
		return nil
	}
	has, err := k.Contains(pid)
	if err == nil && !has {
		err = fmt.Errorf("%s: %w: process %d is not among those in %s", name, ErrElsewhere, pid, path)
	}
	return err
}

// FirstIn is the first process of an engine's container by its group, for engines that do not name it: the one that began
// first. 0: there is none, or no such group.
func (h *Host) FirstIn(name, path string) (pid int) {
	const most = 1000 // the kernel lists the oldest processes first (v2), or those with the lowest ids (v1)
	var first Process
	inspected := 0
	_, err := h.tree.Foreign(name, path).AnyProcess(func(pid int) bool {
		if p, err := processOf(pid); err == nil && (first.PID == 0 || p.Start < first.Start) {
			first = p
		}
		inspected++
		return inspected == most
	})
	if err != nil && !errors.Is(err, cgroup.ErrTooMany) {
		return 0
	}
	return first.PID
}
