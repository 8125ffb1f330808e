package procfs

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/candor-project/candor/internal/kernelfs"
)

// MaxTenantMounts bounds the mount table of a tenant's process, in bytes: some thousands of mounts. A process in a user namespace
// of its own can have 100,000 mounts (fs.mount-max) with paths of 4 kB. The kernel needs 11 ms of CPU time to print a table of
// this size.
const MaxTenantMounts = 1 << 20

// MaxHostMounts bounds the mount table of candor's own mount namespace, in bytes. Only root can make this table longer.
const MaxHostMounts = 256 << 20

// EachMount calls visit for every mount whose line in a mountinfo file contains one of the given words, the oldest mount first
// (proc_pid_mountinfo(5)). It reads the file in pieces. The error is kernelfs.ErrTooLong for a file beyond limit bytes, after the
// mounts before that bound. It skips a mount whose line is longer than kernelfs.MaxLine.
func EachMount(file string, limit int64, words []string, visit func(*mountinfo.Info)) error {
	p := mountParser{words: words, visit: visit}
	if err := kernelfs.Lines(file, limit, p.add); err != nil {
		return err
	}
	return p.err
}

// EachMountIn calls visit for mounts of an open mountinfo file, as EachMount does.
func EachMountIn(in io.Reader, limit int64, words []string, visit func(*mountinfo.Info)) error {
	p := mountParser{words: words, visit: visit}
	if err := kernelfs.LinesOf(in, limit, p.add); err != nil {
		return fmt.Errorf("mountinfo: %w", err)
	}
	return p.err
}

// EachMountOver calls visit for every mount in a mountinfo file whose mount point is one of the given absolute paths or a directory above
// one of them. The oldest mount is first. EachMountOver stops when visit returns false. It reads the file as EachMount does, and returns
// the same errors.
func EachMountOver(file string, limit int64, paths []string, visit func(*mountinfo.Info) (more bool)) error {
	more := true
	p := mountParser{words: []string{""}, visit: func(m *mountinfo.Info) { more = visit(m) }}
	err := kernelfs.Lines(file, limit, func(line []byte) bool {
		return !isOver(mountPoint(line), paths) || p.add(line) && more
	})
	if err != nil {
		return err
	}
	return p.err
}

// mountPoint returns the fifth field of a line of a mountinfo file, the mount point. The kernel escapes blanks in all fields.
func mountPoint(line []byte) (field []byte) {
	for range 5 {
		field, line, _ = bytes.Cut(line, []byte(" "))
	}
	return field
}

// isOver reports whether a mount point is one of the paths or a directory above one of them. An incomplete line has no mount point.
func isOver(mountPoint []byte, paths []string) bool {
	dir := string(mountPoint)
	if dir == "" || dir == "/" {
		return dir == "/"
	}
	below := dir + "/"
	return slices.ContainsFunc(paths, func(path string) bool { return path == dir || strings.HasPrefix(path, below) })
}

type mountParser struct {
	words []string
	visit func(*mountinfo.Info)
	err   error
}

func (p *mountParser) add(line []byte) (more bool) {
	contains := func(word string) bool { return bytes.Contains(line, []byte(word)) }
	if !slices.ContainsFunc(p.words, contains) {
		return true
	}
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(line), nil)
	if err != nil {
		p.err = fmt.Errorf("mountinfo: %w", err)
		return false
	}
	for _, m := range mounts {
		p.visit(m)
	}
	return true
}
