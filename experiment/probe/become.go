//go:build linux && (amd64 || arm64)

package probe

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Check returns an error if this machine does not support watching programs.
func Check() error {
	var sizes [3]uint16 // of struct seccomp_notif, seccomp_notif_resp and seccomp_data; Linux 5.0
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		return fmt.Errorf("%w: seccomp: %w; use Linux 5.5 or newer", ErrUnsupported, errno)
	}
	if sizes[0] > maxNotification || uintptr(sizes[1]) > unsafe.Sizeof(answer{}) {
		return fmt.Errorf("%w: seccomp: notifications of %d bytes", ErrUnsupported, sizes[0])
	}
	return nil
}

// Become installs a seccomp filter for this thread and its children. It sends the filter's listener over the socket
// at standard input, and executes the program. It returns only on an error.
func Become(path string, args []string) error {
	runtime.LockOSThread() // from here on, the Go runtime starts no thread from this thread, so no other thread gets the filter
	socket, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err == nil {
		err = unix.Dup3(int(null.Fd()), 0, 0)
	}
	if err != nil {
		return err
	}
	listener, err := install(filter())
	if err != nil {
		return fmt.Errorf("%w: seccomp: %w", ErrUnsupported, err)
	}
	// A filtered call blocks until the other side listens. So this process makes no filtered call before it has sent the listener.
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// filter returns a BPF program that notifies the listener of the calls in callEvents, and allows all other calls.
func filter() []unix.SockFilter {
	const number, arch = 0, 4 // offsets in struct seccomp_data
	numbers := slices.Sorted(maps.Keys(callEvents))
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: arch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jf: uint8(len(numbers) + 1)}, // another architecture (32 bits): allow
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
	}
	for i, n := range numbers {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jt: uint8(len(numbers) - i)})
	}
	return append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}

// install installs the filter for this thread and returns its listener.
func install(program []unix.SockFilter) (listener int, err error) {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	seccomp := func() (uintptr, syscall.Errno) {
		fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&p)))
		return fd, errno
	}
	fd, errno := seccomp()
	if errno == unix.EACCES { // without CAP_SYS_ADMIN the kernel requires no_new_privs
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, err
		}
		fd, errno = seccomp()
	}
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
