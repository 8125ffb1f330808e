package host

import (
	"context"
	"errors"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/errline"
)

// PlaceHelper moves a helper into its container's cgroup, so that both share the quota and the weight. The cgroup gets
// a quota if it has none, because the cpuset does not bound the helper. The container must have a cgroup of Candor. The
// error is cgroup.ErrNoPlacement if this machine does not allow it.
func (h *Host) PlaceHelper(ctx context.Context, name string, pid int) error {
	err := h.operate(ctx, func(op *operation) error {
		g := op.info[name]
		if g == nil {
			return unknownContainer(name)
		}
		op.subject = name
		if err := op.tree.Group(name).PlaceHelper(pid); err != nil {
			return err
		}
		g.HasHelper = true
		return nil
	})
	if err != nil { // a later step can have failed, such as the quota
		return errline.Join(err, h.ReturnHelpers(name))
	}
	return nil
}

// ReturnHelpers moves the helpers of a container back to their own cgroups, so that a runtime can remove the container's
// cgroup.
func (h *Host) ReturnHelpers(name string) error {
	if err := h.tree.Group(name).ReturnHelpers(); !errors.Is(err, cgroup.ErrNoGroup) {
		return err
	}
	return nil
}
