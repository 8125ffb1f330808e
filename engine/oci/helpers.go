package oci

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/ledger/sample"
	"github.com/candor-project/candor/spec"
)

// placeHelper places the helper that serves only this container, such as conmon, in the container's cgroup, before the program
// starts. The helper runs until the real runtime deletes the container. Without such a helper, as under Docker, placeHelper
// does nothing. With helpers=charge, a helper that cannot be placed is no error, because candor ledger agent charges its CPU
// time to the container.
func (c *Call) placeHelper(ctx context.Context, h *host.Host, g *host.Grant) error {
	if g.Helpers < spec.HelpersPlace {
		return nil
	}
	helper := sample.DedicatedHelper(os.Getppid(), c.ID)
	if helper == nil {
		return nil
	}
	isCharged := g.Helpers >= spec.HelpersCharge
	if g.Engine.Cgroup != "" {
		if isCharged {
			return nil
		}
		return fmt.Errorf("%s: cannot place %s: the container has a chosen parent cgroup; set a quota on the parent, or use no --cgroup-parent", g.DisplayName(), helper)
	}
	if err := h.PlaceHelper(ctx, g.ID, helper.PID); err != nil && !(isCharged && errors.Is(err, cgroup.ErrNoPlacement)) {
		return fmt.Errorf("%s: cannot place %s: %w", g.DisplayName(), helper, err)
	}
	return nil
}

// returnHelpers moves the container's helpers out of its cgroup, so that the real runtime can remove the cgroup. This process
// can be among the helpers, because conmon starts the command that deletes the container.
func (w *Wrapper) returnHelpers(c *Call) error {
	if c.checkID() != nil {
		return nil // the real runtime refuses the command
	}
	h, err := w.open(c)
	if err != nil {
		return err
	}
	defer h.Close()
	return h.ReturnHelpers(c.Name())
}
