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
	"golang.org/x/sys/unix"
)

const (
	pluginName   = "candor"
	observerName = "candor-observe" // differs from pluginName, so that required_plugins does not accept an observer
	pluginIndex  = "50"             // the order among plugins; two digits, as NRI wants it
)

// Patience bounds the wait of an event for the state's lock. By NRI's default, the runtime waits 2 s for a plugin. Then it continues
// without the plugin, or refuses the container (NRI 0.12.5 and later).
const Patience = 1500 * time.Millisecond

// ErrBadSocket means that the socket path is invalid.
var ErrBadSocket = errors.New("NRI socket")

// longestPath is the kernel's maximum length of a socket path (unix(7)).
const longestPath = len(unix.RawSockaddrUnix{}.Path) - 1

// CheckSocket returns an error for a path to a file that is not a socket. A missing file is no error: the runtime can start later.
func CheckSocket(path string) error {
	if path == "" || len(path) > longestPath {
		return fmt.Errorf("%w %.40q: a path of %d bytes: must be the socket_path of the runtime's NRI configuration, at most %d bytes", ErrBadSocket, path, len(path), longestPath)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadSocket, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w %s: not a socket: must be the socket_path of the runtime's NRI configuration", ErrBadSocket, path)
	}
	return nil
}

// Run connects the engine to the runtime at a socket, and again whenever the connection ends, until ctx is done. It calls ready after
// each connection.
func (e *Engine) Run(ctx context.Context, socket string, ready func()) error {
	e.host.KeepOpen(maxOpenFiles())
	defer e.host.KeepOpen(0)
	go e.repairLoop(ctx)
	go e.host.UpdateUnits(ctx)
	defer e.recordAllStarts()
	nrilog.Set(quiet{e.log})
	away := newAbsence()
	for ctx.Err() == nil {
		end := e.connection(ctx, socket, ready)
		e.metrics.Disconnected()
		if ctx.Err() != nil {
			break
		}
		wait, report := e.reconnects.next(end)
		e.flapping.Store(e.reconnects.isFlapping())
		if report {
			e.reportEnding(socket, &end, wait)
		}
		e.recordAbsence(away, socket, &end)
		select {
		case <-ctx.Done():
		case <-time.After(jitter(wait)):
		}
	}
	return nil
}

// reportEnding logs why the plugin is not connected, and a possible remedy.
func (e *Engine) reportEnding(socket string, end *ending, wait time.Duration) {
	if e.flapping.Load() {
		e.log.Error("the runtime has ended repeatedly right after the plugin connected; the plugin waits longer before each new connection",
			"socket", socket, "lasted", end.lasted.Round(time.Millisecond), "reason", end.err, "next", wait, "longest", longestWait,
			"check", "the runtime's log; containerd 2.4 panics when its pods and containers have more than 4 MB of annotations, labels, arguments and environment")
		return
	}
	e.log.Warn("waiting for the runtime", "socket", socket, "reason", end.err, "check", remedyFor(end.err))
}

// maxOpenFiles returns the number of files with CPU lists to keep open. It is half of the number of files that this process can open, but
// at most the number that hundreds of containers and their pods need. The kernel uses 4 to 5 KB for each.
func maxOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur/2, 2048))
}

// remedyFor returns the remedy for the most frequent cause of a failure to connect.
func remedyFor(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return "start the runtime, enable NRI (on by default in containerd 2; CRI-O: enable_nri), and use its socket_path"
	case errors.Is(err, fs.ErrPermission):
		return "run as root, and mount the socket into this container"
	default:
		return "the runtime's log"
	}
}

// connection connects to the runtime, waits until the connection ends, and returns how it ended.
func (e *Engine) connection(ctx context.Context, socket string, ready func()) (end ending) {
	if end.err = CheckSocket(socket); end.err != nil {
		return end
	}
	l := &link{plugin: &plugin{e, ready}}
	defer l.runtime.close()
	s, err := e.newStub(socket, l)
	if err != nil {
		end.err = err
		return end
	}
	stopped := context.AfterFunc(ctx, s.Stop)
	defer stopped()
	start := time.Now()
	stable := time.AfterFunc(e.reconnects.stable, l.becomeStable)
	defer stable.Stop()
	end.err = s.Run(ctx)
	end.connected, end.lasted = l.connected, time.Since(start)
	end.died = l.connected && end.lasted < e.reconnects.stable && l.runtime.hasEnded()
	return end
}

// newStub returns NRI's stub of a new connection.
func (e *Engine) newStub(socket string, l *link) (stub.Stub, error) {
	options := []stub.Option{
		stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(socket), stub.WithDialer(l.dial),
		stub.WithOnClose(func() {}), // without this function, the stub would end the process
	}
	if e.observes {
		return stub.New(&observer{l}, append(options, stub.WithPluginName(observerName))...)
	}
	// A container that starts without a plan would run on the CPUs of other containers.
	refuse := stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true})
	return stub.New(l, append(options, stub.WithPluginName(pluginName), refuse)...)
}

// repairLoop finds and corrects writes of other programs to the cgroups.
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
		e.kubelets.recheck(e.log, "/")
		e.host.CloseUnused()
	}
}

// quiet logs the messages of the NRI library. Its information messages become debug messages.
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
