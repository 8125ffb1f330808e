package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/candor-project/candor/internal/kernelfs"
)

// Bounds of the reads by Listens, for each process.
const (
	maxSocketTable = 64 << 20 // bytes: some 400,000 connections
	maxListening   = 10_000   // listening sockets of the process's network namespace; Listens ignores further sockets
)

// Listens reports whether a process listens for connections, by TCP or a Unix socket with a path. An error means that the process has
// ended, or that its network namespace has too many sockets.
func Listens(pid int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	sockets := map[string]bool{}
	for _, name := range []string{"tcp", "tcp6", "unix"} {
		err := kernelfs.Lines(dir+"net/"+name, maxSocketTable, func(line []byte) (more bool) {
			if inode := listening(line, name == "unix"); inode != "" {
				sockets["socket:["+inode+"]"] = true
			}
			return len(sockets) < maxListening
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel can lack the file
			return false, err
		}
	}
	folder, err := os.Open(dir + "fd")
	if err != nil {
		return false, err
	}
	defer folder.Close()
	for {
		files, err := folder.Readdirnames(256)
		for _, file := range files {
			if target, err := os.Readlink(dir + "fd/" + file); err == nil && sockets[target] {
				return true, nil
			}
		}
		if len(files) == 0 {
			return false, ignoreEOF(err)
		}
	}
}

// listening returns the inode of the socket in a line of /proc/net/tcp or /proc/net/unix if that socket listens, else "".
func listening(line []byte, isUnix bool) (inode string) {
	state, listen, at := 3, "0A", 9 // indexes of the fields; 0A is TCP_LISTEN
	if isUnix {
		state, listen, at = 3, "00010000", 6 // __SO_ACCEPTCON
	}
	if fields := strings.Fields(string(line)); len(fields) > at && fields[state] == listen {
		return fields[at]
	}
	return ""
}
