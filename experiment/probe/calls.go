//go:build linux && (amd64 || arm64)

package probe

import "golang.org/x/sys/unix"

// A call is what a system call tells.
type call uint8

const (
	asksAffinity call = iota + 1
	opens             // the file is its first argument
	opensAt           // its second
	starts            // a thread or a process
	becomes           // another program
)

// calls are those that the kernel tells of, on every machine; oldCalls are those that only some have.
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
	for number, what := range oldCalls {
		calls[number] = what
	}
}
