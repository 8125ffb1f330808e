package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
)

// The kernel restores neither a quota nor a frozen group when the process that changed them is killed. So the agent starts a
// guard: a process that waits for the end of the agent and then runs an operation, which restores the containers whose lease
// has ended. The guard reads a pipe, whose other end only the agent has. The guard has its own session and runs in the root
// cgroups, so that the end of the agent's service or container does not kill it.

// A guard is the running guard of this process.
type guard struct {
	command *exec.Cmd
	pipe    io.Closer
}

// startGuard starts the guard of this process. arguments select the machine's state, as the flags of hostFlags do.
func startGuard(tree *cgroup.Tree, arguments []string, log *slog.Logger) (*guard, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{"ledger", "guard", "--agent", strconv.Itoa(os.Getpid())}, arguments...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := tree.MoveToRoot(cmd.Process.Pid); err != nil {
		log.Warn("the guard stays in the cgroup of the agent: if both are killed together, the next operation of Candor restores the containers", "error", err)
	}
	return &guard{cmd, pipe}, nil
}

// stop ends the guard, after the agent has restored the containers itself.
func (g *guard) stop() {
	_ = g.command.Process.Signal(syscall.SIGTERM) // an error means that the guard has ended before
	_ = g.pipe.Close()
	_ = g.command.Wait()
}

// guardTimeout bounds the operation of the guard.
const guardTimeout = 30 * time.Second

func newLedgerGuardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "guard",
		Short:  "Restore the containers after the end of candor ledger agent",
		Hidden: true, // the agent starts it
		Args:   noArgs,
	}
	pid := cmd.Flags().Int("agent", 0, "process ID of the agent, the parent of this process")
	machine := addHostFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		agent, err := state.ProcessOf(*pid)
		if err != nil || os.Getppid() != *pid {
			agent = host.Process{} // the agent has ended
		}
		h, err := machine.openToLook(cmd) // read-only, because the guard creates no groups
		if err != nil {
			return err
		}
		defer h.Close()
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return fmt.Errorf("cannot wait for the end of the agent: %w", err)
		}
		return restoreAfter(cmd.Context(), h, agent)
	}
	return cmd
}

// restoreAfter waits until the agent's process has ended, and then restores the containers. The wait is necessary because the
// kernel closes the agent's pipe a moment before the process ends.
func restoreAfter(ctx context.Context, h *host.Host, agent host.Process) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	for agent.Alive() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return h.Reconcile(ctx)
}
