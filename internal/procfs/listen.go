package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Listens reports whether a process waits for connections, by TCP or a socket in the file system. The error
// is that of a process which has ended.
func Listens(pid int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	sockets := map[string]bool{}
	for _, name := range []string{"tcp", "tcp6", "unix"} {
		text, err := os.ReadFile(dir + "net/" + name)
		if err != nil && !os.IsNotExist(err) { // a kernel may be without one of them
			return false, err
		}
		for _, inode := range listening(text, name == "unix") {
			sockets["socket:["+inode+"]"] = true
		}
	}
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if target, err := os.Readlink(dir + "fd/" + file.Name()); err == nil && sockets[target] {
			return true, nil
		}
	}
	return false, nil
}

// listening returns the inodes of the sockets that wait for connections, of /proc/net/tcp or /proc/net/unix.
func listening(text []byte, unix bool) (inodes []string) {
	state, listen, inode := 3, "0A", 9 // fields of a line: TCP_LISTEN
	if unix {
		state, listen, inode = 3, "00010000", 6 // __SO_ACCEPTCON
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) > inode && fields[state] == listen {
			inodes = append(inodes, fields[inode])
		}
	}
	return inodes
}
