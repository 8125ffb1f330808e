// Command tenant is a program that attacks the node from inside a container: tenant ATTACK ARGUMENT... The tests of e2e put it into
// images.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "lease" {
		lease(map[string]int{"read": unix.F_RDLCK, "write": unix.F_WRLCK}[os.Args[2]])
	}
	fmt.Fprintln(os.Stderr, "want: tenant lease read|write")
	os.Exit(2)
}

// lease asks for leases on the files of the view again and again, and writes their number when it changes.
func lease(kind int) {
	signal.Ignore(unix.SIGIO)
	var fds []int
	for _, name := range []string{"/sys/devices/system/cpu/online", "/proc/cpuinfo"} {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		fds = append(fds, fd)
	}
	for last := -1; ; time.Sleep(5 * time.Millisecond) {
		held := 0
		for _, fd := range fds {
			if is, _ := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); is == kind {
				held++
				continue
			}
			unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind); err == nil {
				held++
			}
		}
		if held != last {
			last = held
			fmt.Println("leases", held)
		}
	}
}
