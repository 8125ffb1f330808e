//go:build linux && (amd64 || arm64)

package probe

import (
	"maps"

	"golang.org/x/sys/unix"
)

// A call is the event behind a system call.
type call uint8

const (
	asksAffinity call = iota + 1
	opens             // the path is the first argument
	opensAt           // the path is the second argument
	starts            // a thread or a process
	becomes           // another program
)

// calls are the system calls that the filter reports on every architecture. oldCalls are the calls that only some
// architectures have.
var calls = map[uint32]call{
	unix.SYS_SCHED_GETAFFINITY: asksAffinity,
	unix.SYS_OPENAT:            opensAt,
	unix.SYS_OPENAT2:           opensAt,
	unix.SYS_CLONE:             starts,
	unix.SYS_CLONE3:            starts,
	unix.SYS_EXECVE:            becomes,
	unix.SYS_EXECVEAT:          becomes,
}

func init() {
	maps.Copy(calls, oldCalls)
}
