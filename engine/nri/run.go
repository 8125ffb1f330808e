package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"
)

const (
	pluginName  = "candor"
	pluginIndex = "50" // the order among plugins; two digits, as NRI wants it
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second
)

// Patience is how long an event may wait for the state's lock: with NRI's default, the runtime
// gives a plugin 2 s, and then goes on without it.
const Patience = 1500 * time.Millisecond

// ErrBadSocket is a socket path that cannot be one.
var ErrBadSocket = errors.New("NRI socket")

// CheckSocket refuses a path at which something else is than a socket. That nothing is there is no
// error: the runtime may start later.
func CheckSocket(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadSocket, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w %s: not a socket: want the socket_path of the runtime's NRI configuration", ErrBadSocket, path)
	}
	return nil
}

// Run connects the engine with the runtime at a socket, and again whenever the connection ends,
// until ctx is done. ready is called each time the two have met.
func (e *Engine) Run(ctx context.Context, socket string, ready func()) error {
	go e.repairLoop(ctx)
	nrilog.Set(quiet{e.log})
	wait := firstWait
	for ctx.Err() == nil {
		began := time.Now()
		err := e.connection(ctx, socket, ready)
		e.metrics.Disconnected()
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > longestWait {
			wait = firstWait
		}
		e.log.Warn("not connected to the runtime", "socket", socket, "error", err, "again in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, longestWait)
	}
	return nil
}

// connection is one connection, from its begin to its end.
func (e *Engine) connection(ctx context.Context, socket string, ready func()) error {
	if err := CheckSocket(socket); err != nil {
		return err
	}
	s, err := stub.New(&plugin{e, ready},
		stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(socket),
		stub.WithOnClose(func() {}), // or the stub would end the process
		// A container that starts without its plan would run on others' CPUs.
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true}))
	if err != nil {
		return err
	}
	stopped := context.AfterFunc(ctx, s.Stop)
	defer stopped()
	return s.Run(ctx)
}

// repairLoop finds what others have written to the groups.
func (e *Engine) repairLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(e.config.Load().RepairEvery):
		}
		if err := e.Repair(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("repair", "error", err)
		}
	}
}

// quiet gives the library's own messages to the log: what it calls information is of use to
// its authors.
type quiet struct{ log *slog.Logger }

func (q quiet) Debugf(context.Context, string, ...any) {}
func (q quiet) Infof(_ context.Context, format string, args ...any) {
	q.log.Debug(fmt.Sprintf(format, args...))
}
func (q quiet) Warnf(_ context.Context, format string, args ...any) {
	q.log.Warn(fmt.Sprintf(format, args...))
}
func (q quiet) Errorf(_ context.Context, format string, args ...any) {
	q.log.Error(fmt.Sprintf(format, args...))
}
