package launch

import (
	"context"
	"os"
	"syscall"

	"github.com/candor-project/candor/host"
)

// A Child is a program started by Start or StartIn.
type Child struct {
	Grant   *host.Grant
	host    *host.Host
	process *os.Process
}

// Start allocates CPUs for a program and starts it with the given standard streams, in its own process group. Unlike
// Run, it does not forward signals and does not wait, and the caller must release the grant. On an error the program
// was not started.
func Start(ctx context.Context, h *host.Host, a host.Allocation, p Program, streams [3]*os.File) (*Child, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	helper, err := startHelper(streams, a.View.HasFiles(), true)
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
	if err := sendOrder(h, g, p, helper); err != nil {
		h.Logger().Debug("helper", "error", err) // the helper has ended; its exit code reports the reason
	}
	return &Child{g, h, helper.process}, nil
}

// StartIn starts a program in the cgroup of another child, and both share its CPUs and limit. The cgroup is removed
// when the grant is released. On an error the program was not started.
func StartIn(h *host.Host, parent *Child, p Program, streams [3]*os.File) (*Child, error) {
	helper, err := startHelper(streams, parent.Grant.View.HasFiles(), true)
	if err != nil {
		return nil, err
	}
	defer helper.orders.Close()
	if err := h.OwnGroup(parent.Grant.ID).Enter(helper.process.Pid); err != nil {
		helper.abort()
		return nil, err
	}
	if err := sendOrder(h, parent.Grant, p, helper); err != nil {
		h.Logger().Debug("helper", "error", err) // the helper has ended; its exit code reports the reason
	}
	return &Child{parent.Grant, h, helper.process}, nil
}

// Wait waits for the end of the program's first process.
func (c *Child) Wait() (*os.ProcessState, error) { return c.process.Wait() }

// Kill kills all processes in the program's cgroup.
func (c *Child) Kill() error { return c.host.OwnGroup(c.Grant.ID).Kill(syscall.SIGKILL) }

// Processes returns the ids of the program's processes.
func (c *Child) Processes() ([]int, error) { return c.host.OwnGroup(c.Grant.ID).Processes() }
