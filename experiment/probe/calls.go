//go:build linux && (amd64 || arm64)

package probe

import (
	"maps"

	"golang.org/x/sys/unix"
)

// An event is an action of the program that the probe observes through a system call, such as the start of a thread.
type event uint8

const (
	eventAffinity event = iota + 1 // the program reads its affinity
	eventOpen                      // the program opens a file; the path is the first argument
	eventOpenAt                    // the program opens a file; the path is the second argument
	eventStart                     // the program starts a thread or a process
	eventExec                      // the program executes another program
)

// callEvents maps the system calls that the filter reports to their events. It lists the calls of every architecture;
// init adds archEvents, the calls that only some architectures have.
var callEvents = map[uint32]event{
	unix.SYS_SCHED_GETAFFINITY: eventAffinity,
	unix.SYS_OPENAT:            eventOpenAt,
	unix.SYS_OPENAT2:           eventOpenAt,
	unix.SYS_CLONE:             eventStart,
	unix.SYS_CLONE3:            eventStart,
	unix.SYS_EXECVE:            eventExec,
	unix.SYS_EXECVEAT:          eventExec,
}

func init() {
	maps.Copy(callEvents, archEvents)
}
