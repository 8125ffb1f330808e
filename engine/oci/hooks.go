package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

// Events for which the real runtime calls hooks.
const (
	started   = "started"   // the container's cgroup exists, and the program has not run
	preserved = "preserved" // the same, for a container with preserved CPUs (Host.Preserve)
	stopped   = "stopped"   // the container is deleted
)

// HasEnded reports whether an event is the end of a container. The hook of this event must not fail, because runc 1.5 would not delete the
// container. The next operation detects the end of the container in any case.
func HasEnded(event string) bool { return event == stopped }

// Hook handles an event of the named container, for which the real runtime has called candor. For the event preserved, cpus are
// the CPUs that the user has chosen. state is the runtime's description of the container (runtime-spec, "State").
func Hook(ctx context.Context, h *host.Host, event, name string, cpus cpuset.Set, state io.Reader) error {
	if event == stopped {
		err := h.ReleaseEnded(ctx, name)
		if errors.As(err, new(*hybrid.Refusal)) { // the grant was reaped, or there was none
			err = nil
		}
		return errline.Join(err, h.EndPreserve(ctx, name), h.SweepBundles(ctx))
	}
	pid, err := pidIn(state)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case event == started:
		return h.ConfirmOCIStart(ctx, name, pid)
	case event == preserved:
		return h.Preserve(ctx, name, cpus, pid)
	default:
		return fmt.Errorf("%w: event %.40q: must be %s, %s or %s", host.ErrBadSpec, event, started, preserved, stopped)
	}
}

// pidIn reads the ID of a container's first process from the runtime's state.
func pidIn(state io.Reader) (int, error) {
	const most = 1 << 20
	var s struct{ PID int }
	if err := json.NewDecoder(io.LimitReader(state, most)).Decode(&s); err != nil {
		return 0, fmt.Errorf("the runtime's state of the container: %w", err)
	}
	if s.PID <= 0 {
		return 0, fmt.Errorf("the runtime's state of the container: process ID %d: must be positive", s.PID)
	}
	return s.PID, nil
}
