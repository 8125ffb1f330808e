//go:build linux && (amd64 || arm64)

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/view"
)

// A notification is the kernel's struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32 // thread id
	flags uint32
	data  struct {
		number  uint32
		arch    uint32
		pointer uint64
		args    [6]uint64
	}
}

// maxNotification is the maximum size of a notification. The notifications of newer kernels can be longer than the
// struct notification.
const maxNotification = 256

// An answer is the kernel's struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// Watch receives notifications until the program or the context ends. tasks returns the number of the program's
// threads.
func Watch(ctx context.Context, listener *os.File, tasks func() int) (Seen, error) {
	w := watch{fd: listener.Fd(), tasks: tasks}
	for ctx.Err() == nil {
		events := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(events, 20); err != nil && !errors.Is(err, unix.EINTR) {
			return w.seen, err
		}
		switch {
		case events[0].Revents&unix.POLLIN != 0:
			if err := w.receive(); err != nil {
				return w.seen, err
			}
		case events[0].Revents != 0: // no process with the filter is left
			w.seen.Settled = true
			return w.seen, nil
		}
	}
	w.seen.Settled = w.settled(time.Now())
	return w.seen, nil
}

type watch struct {
	fd    uintptr
	seen  Seen
	first uint32 // the program's first process; 0 while candor has not yet executed it
	began time.Time
	last  time.Time // time of the last notification
	tasks func() int
}

// settled reports whether the program seems to have completed its start. The time since its last event must be at least the time
// from its start to this event, plus minQuiet. A slow machine thus gets proportionally more time.
func (w *watch) settled(now time.Time) bool {
	return w.first != 0 && now.Sub(w.last) >= w.last.Sub(w.began)+minQuiet
}

// minQuiet is the minimum time without events before a start counts as settled.
const minQuiet = 100 * time.Millisecond

// receive receives a notification and lets the call continue. If the thread has ended, receive returns no error.
func (w *watch) receive() error {
	var buffer [maxNotification / 8]uint64 // the kernel requires zeros
	n := (*notification)(unsafe.Pointer(&buffer))
	if err := ioctl(w.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)); err != nil {
		return ignoreEnded(err)
	}
	w.record(n)
	a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	return ignoreEnded(ioctl(w.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)))
}

func ioctl(fd, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

func ignoreEnded(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// record adds the event of a notification to the observation.
func (w *watch) record(n *notification) {
	kind := callEvents[n.data.number]
	// A script can execute the program. The probe then starts again, so that it does not record the calls of the script.
	if kind == eventExec && (w.first == 0 || w.first == n.pid) {
		w.first, w.seen, w.began = processOf(n.pid), Seen{Threads: 1, Sources: []Source{}}, time.Now()
	}
	if w.first == 0 {
		return
	}
	w.last = time.Now()
	switch kind {
	case eventAffinity:
		w.seen.addRead(view.SourceAffinity)
	case eventOpen:
		w.seen.addRead(sourceOf(readString(int(n.pid), n.data.args[0])))
	case eventOpenAt:
		w.seen.addRead(sourceOf(readString(int(n.pid), n.data.args[1])))
	case eventStart:
		w.seen.Threads = max(w.seen.Threads, w.tasks()+1)
	}
}

// processOf returns the process of a thread.
func processOf(thread uint32) uint32 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "Tgid:"); ok {
			if process, err := strconv.ParseUint(strings.TrimSpace(id), 10, 32); err == nil {
				return uint32(process)
			}
		}
	}
	return thread // the thread has just ended
}

// maxPath limits the length of paths. The paths of all sources are shorter.
const maxPath = 512

// readString reads a string from a process's memory. It returns "" if it cannot read the memory.
func readString(pid int, address uint64) string {
	var text []byte
	for len(text) < maxPath {
		const page = 4096
		part := make([]byte, min(maxPath, page-(address+uint64(len(text)))%page)) // the next page can be unmapped
		local, remote := []unix.Iovec{{Base: &part[0]}}, []unix.RemoteIovec{{Base: uintptr(address) + uintptr(len(text)), Len: len(part)}}
		local[0].SetLen(len(part))
		n, err := unix.ProcessVMReadv(pid, local, remote, 0)
		if err != nil || n == 0 {
			return ""
		}
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			return string(append(text, part[:end]...))
		}
		text = append(text, part[:n]...)
	}
	return ""
}
