package cgroup

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A recorder lists the files that are written in some groups, with inotify.
type recorder struct {
	fd   int
	dirs map[int]string
}

// record returns a recorder for the groups dirs.
func record(t testing.TB, dirs ...string) *recorder {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	r := &recorder{fd, map[int]string{}}
	for _, dir := range dirs {
		wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY)
		must(t, err)
		r.dirs[wd] = filepath.Base(dir)
	}
	return r
}

// written returns "group/file" of each write since the last call, in order.
func (r *recorder) written(t testing.TB) []string {
	t.Helper()
	var files []string
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(r.fd, buf)
		if err == unix.EAGAIN {
			return files
		}
		must(t, err)
		for b := buf[:n]; len(b) > 0; {
			wd := int(int32(le32(b)))
			length := int(le32(b[12:]))
			name := strings.TrimRight(string(b[16:16+length]), "\x00")
			if strings.HasPrefix(name, "cpu") {
				files = append(files, r.dirs[wd]+"/"+name)
			}
			b = b[16+length:]
		}
	}
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
