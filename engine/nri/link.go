package nri

import (
	"context"
	"net"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
)

// A link is a plugin that is connected with a runtime.
type link struct {
	*plugin
	runtime runtimeProcess
}

// dial connects with the runtime, and learns which process that is.
func (l *link) dial(socket string) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		l.runtime.pid = peerOf(conn)
	}
	return conn, err
}

// peerOf is the process that listens at the other end; 0 where it cannot be seen from here.
func peerOf(conn net.Conn) (pid int) {
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

// Configure is told who the runtime is. It subscribes to all events that there is a method for.
func (l *link) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	l.runtime.name, l.runtime.version = runtime, version
	return 0, nil
}

// Synchronize also has a look around the plugin. The runtime does not wait for that: its 2 s are for the answer.
func (l *link) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	updates, err := l.plugin.Synchronize(ctx, pods, ctrs)
	if err == nil {
		go l.lookAround()
	}
	return updates, err
}

// lookAround says what around the plugin is not as it should be: either may have changed since the last time that
// plugin and runtime met.
func (l *link) lookAround() {
	if !l.observes {
		l.runtime.sayRequired(l.log, "/")
	}
	if _, err := CheckKubelet("/"); err != nil {
		l.log.Error("two managers", "error", err)
	}
}
