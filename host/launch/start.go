package launch

import (
	"context"
	"os"
	"syscall"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/spec"
)

// A Child is a program that Start has started.
type Child struct {
	Grant   *host.Grant
	host    *host.Host
	process *os.Process
}

// Start allocates CPUs for a program and starts it with some standard streams, in a process group of
// its own. Other than Run it passes no signals on, does not wait, and releases nothing: that is the caller's. On an
// error the program was not started.
func Start(ctx context.Context, h *host.Host, a host.Allocation, p Program, streams [3]*os.File) (*Child, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	helper, err := startHelper(streams, a.View == spec.ViewFull, true)
	if err != nil {
		return nil, err
	}
	defer helper.orders.Close()
	a.PID = helper.process.Pid
	g, err := h.Allocate(ctx, a)
	if err != nil {
		helper.abort()
		return nil, err
	}
	if err := orderFor(h, g, p, helper); err != nil {
		h.Logger().Debug("helper", "error", err) // it has ended: its exit code tells
	}
	return &Child{g, h, helper.process}, nil
}

// StartIn starts a program in the group of another one that Start has started: what that has is for both. The group goes when
// the grant is released. On an error the program was not started.
func StartIn(h *host.Host, of *Child, p Program, streams [3]*os.File) (*Child, error) {
	helper, err := startHelper(streams, of.Grant.View == spec.ViewFull, true)
	if err != nil {
		return nil, err
	}
	defer helper.orders.Close()
	if err := h.OwnGroup(of.Grant.ID).Enter(helper.process.Pid); err != nil {
		helper.abort()
		return nil, err
	}
	if err := orderFor(h, of.Grant, p, helper); err != nil {
		h.Logger().Debug("helper", "error", err) // it has ended: its exit code tells
	}
	return &Child{of.Grant, h, helper.process}, nil
}

// Wait waits for the end of the program's first process.
func (c *Child) Wait() (*os.ProcessState, error) { return c.process.Wait() }

// Kill kills all processes of the program's group.
func (c *Child) Kill() error { return c.host.OwnGroup(c.Grant.ID).Kill(syscall.SIGKILL) }

// Processes returns the ids of the program's processes.
func (c *Child) Processes() ([]int, error) { return c.host.OwnGroup(c.Grant.ID).Processes() }
