package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/procfs"
)

// ErrAgentRuns means that a process of candor nri uses the state.
var ErrAgentRuns = errors.New("candor nri runs")

// agentFile is the file that each candor nri process locks while it runs.
func (h *Host) agentFile() string { return filepath.Join(h.store.Dir, "agent") }

// HoldAgent marks this process as an agent (candor nri) until release is called or the process ends. Several processes
// can hold the mark, such as an agent and its successor.
func (h *Host) HoldAgent() (release func(), err error) {
	if h.planOnly {
		return func() {}, nil
	}
	if err := h.store.Prepare(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(h.agentFile(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		if err = flock(file, unix.LOCK_SH|unix.LOCK_NB); err != nil {
			file.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("agent lock: %w", err)
	}
	return func() { file.Close() }, nil
}

// CheckNoAgent returns ErrAgentRuns if a process of candor nri uses the state. An agent of an earlier version holds no
// mark; a grant of a pod names it.
func (h *Host) CheckNoAgent() error {
	file, err := os.OpenFile(h.agentFile(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("agent lock: %w", err)
	default:
		defer file.Close()
		if err := flock(file, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			return agentError(holder(file))
		} else if err != nil {
			return fmt.Errorf("agent lock: %w", err)
		}
	}
	loaded, err := h.store.Load()
	if errors.As(err, new(*state.BrokenError)) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range loaded.Grants {
		if g.Engine.Pod != "" && g.Creator.PID != os.Getpid() && g.Creator.Alive() {
			return agentError(fmt.Sprintf("process %d (%s)", g.Creator.PID, procfs.NameOf(g.Creator.PID)))
		}
	}
	return nil
}

func agentError(process string) error {
	return fmt.Errorf("%w: %s; stop it first, or with the chart use --set giveBack=true", ErrAgentRuns, process)
}
