package nri

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
)

// A link is a plugin with its connection to a runtime.
type link struct {
	*plugin
	mu        sync.Mutex // protects runtime.name and runtime.version
	runtime   runtimeProcess
	connected bool
}

// dial connects with the runtime and records its process.
func (l *link) dial(socket string) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		l.connected = true
		l.runtime.open(peerPID(conn))
	}
	return conn, err
}

// open records the runtime's process. A pidfd identifies the process even if its PID is reused.
func (r *runtimeProcess) open(pid int) {
	r.close()
	r.pid = pid
	if pid <= 0 {
		return
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil { // Linux 5.3
		r.pidfd = fd
	}
}

func (r *runtimeProcess) close() {
	if r.pidfd > 0 {
		unix.Close(r.pidfd)
	}
	r.pidfd = 0
}

// endTime is the maximum time that a process takes to end after the kernel has closed its sockets.
const endTime = time.Second

// hasEnded reports whether the runtime's process has ended or is ending. For a process in another PID namespace it returns true,
// because too long a wait before the next connection does less harm than another crash of the runtime.
func (r *runtimeProcess) hasEnded() bool {
	if r.pidfd <= 0 {
		return true
	}
	for end := time.Now().Add(endTime); ; {
		fds := []unix.PollFd{{Fd: int32(r.pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(0, time.Until(end).Milliseconds())))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// peerPID returns the PID of the process at the other end of a connection. It returns 0 if that process is in another PID namespace.
func peerPID(conn net.Conn) (pid int) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// Configure records the runtime's name. The plugin subscribes to all events for which it has a method.
func (l *link) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runtime.name, l.runtime.version = runtime, version
	return 0, nil
}

// Synchronize calls plugin.Synchronize, and then checks the settings of the runtime and the kubelet. The check runs in a goroutine,
// because the runtime waits for the answer for at most 2 s.
func (l *link) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	updates, err := l.plugin.Synchronize(ctx, pods, ctrs)
	if err == nil && !l.flapping.Load() {
		go l.checkSettings()
	}
	return updates, err
}

// becomeStable handles a connection that has lasted for stableTime. If the runtime had ended repeatedly before, it logs that the
// runtime now stays up.
func (l *link) becomeStable() {
	if l.flapping.Swap(false) {
		l.log.Info("the runtime stays up with the plugin connected", "for", l.reconnects.stable)
		l.checkSettings()
	}
}

// checkSettings logs wrong settings of the runtime and the kubelet. The settings can have changed since the last connection.
func (l *link) checkSettings() {
	if !l.observes {
		l.mu.Lock()
		runtime := runtimeProcess{pid: l.runtime.pid, name: l.runtime.name, version: l.runtime.version}
		l.mu.Unlock()
		runtime.logRequired(l.log, "/")
	}
	l.kubelets.check(l.log, "/")
}

// A kubeletWatch reports a kubelet that assigns CPUs. It reports the same finding only once.
type kubeletWatch struct {
	mu       sync.Mutex
	reported string
}

func (w *kubeletWatch) check(log *slog.Logger, root string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := ""
	if _, err := CheckKubelet(root); err != nil {
		found = err.Error()
	}
	if found != "" && found != w.reported {
		log.Error("two CPU managers on this node", "error", found)
	}
	w.reported = found
}

// recheck calls check if a kubelet's state file in a usual directory contains a policy other than none. A kubelet can start or change its
// policy after the plugin has started. Without such a file, recheck only reads a few files.
func (w *kubeletWatch) recheck(log *slog.Logger, root string) {
	if _, err := checkStates(root); err != nil {
		w.check(log, root)
	}
}
