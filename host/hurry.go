package host

import (
	"context"
	"errors"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// Somebody may wait for an operation's answer, and go on without it when it is late: NRI gives a plugin 2 s. What an
// operation does takes milliseconds. What it may have to wait for is bounded by the deadline of its context: the
// kernel that lets go of a group, processes that end, systemd.

const (
	answerTime = 200 * time.Millisecond // is left for the answer
	brief      = 100 * time.Millisecond // for what others have left: the next operation looks at it again
)

// hurry has an operation wait no longer than its context allows.
func (h *Host) hurry(ctx context.Context) (done func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}
	}
	before := h.tree.Until(deadline.Add(-answerTime))
	return func() { h.tree.Until(before) }
}

// remove removes the group of a container that has ended. A group that the kernel does not let go of within a brief time is left to the
// next operation: the lock is held meanwhile. Only the operation's own container waits longer, if its context allows that.
func (op *operation) remove(name string, remove func() error) (removed bool, err error) {
	end := op.tree.Until(time.Time{})
	defer op.tree.Until(end)
	if soon := time.Now().Add(brief); end.After(soon) || end.IsZero() && !op.isSubject(name) {
		op.tree.Until(soon)
	} else {
		op.tree.Until(end)
	}
	err = remove()
	if errors.Is(err, cgroup.ErrBusy) {
		op.log.Error("a group that is over cannot be removed yet", "container", name, "error", err)
		return false, nil
	}
	if errors.Is(err, cgroup.ErrNoGroup) {
		err = nil
	}
	return err == nil, err
}
