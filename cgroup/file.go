package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

// For speed, paths are joined as dir + "/" + file, and files are opened by system call: an os.File would double the cost of a write.

// open calls open(2) again when a signal interrupts the call.
func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// read returns the content of a kernel file without the final newline.
func read(dir, file string) ([]byte, error) { return trimNewline(kernelfs.Read(dir + "/" + file)) }

// readOne is like read, for a file whose whole content the kernel returns in a single read(2).
func readOne(dir, file string) ([]byte, error) {
	return trimNewline(kernelfs.ReadPiece(dir + "/" + file))
}

func trimNewline(content []byte, err error) ([]byte, error) {
	return bytes.TrimSuffix(content, []byte("\n")), err
}

// write writes a value to a kernel file with a single write(2). The error is a *WriteError.
func write(dir, file, value string) error {
	path := dir + "/" + file
	if err := kernelfs.FaultOf(kernelfs.WriteAccess, path); err != nil {
		return &WriteError{path, value, err}
	}
	return writeFile(path, value)
}

// writeFile is like write, but tests cannot inject faults into it.
func writeFile(path, value string) error {
	fd, err := open(path, unix.O_WRONLY)
	if err != nil {
		return &WriteError{path, value, err}
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Write(fd, []byte(value))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &WriteError{path, value, err}
		}
	}
}

// readInt reads a file with a number.
func readInt(dir, file string) (int64, error) {
	content, err := readOne(dir, file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(content), 10, 64)
	if err != nil {
		return 0, badContent(dir, file, content)
	}
	return n, nil
}

func writeInt(dir, file string, n int64) error {
	return write(dir, file, strconv.FormatInt(n, 10))
}

// readSet reads a file that holds a list of CPUs or memory nodes. A cpuset may name offline CPUs with IDs of cpuset.Max or more;
// readSet omits these CPUs.
func (t *Tree) readSet(dir, file string) (cpuset.Set, error) {
	content, err := t.open.read(dir, file)
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.ParsePossible(string(content))
	if err != nil {
		return set, fmt.Errorf("read %s/%s: %w", dir, file, err)
	}
	return set, nil
}

// writeSet writes a list of CPUs or memory nodes. It refuses an empty set, because some kernels interpret an empty list as all CPUs.
func (t *Tree) writeSet(dir, file string, set cpuset.Set) error {
	if set.IsEmpty() {
		return fmt.Errorf("write %s/%s: an empty set is never written", dir, file)
	}
	return t.open.write(dir, file, set.String())
}

func badContent(dir, file string, content []byte) error {
	return fmt.Errorf("read %s/%s: %w", dir, file, parseError(content))
}

func parseError(text []byte) error { return fmt.Errorf("cannot parse %.60q", text) }

// subgroups returns the sorted paths of the groups directly below dir. It stops reading the directory after about maxGroups groups.
func subgroups(dir string) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	// With two links, the parent's entry and ".", dir has no subfolder. Returning here saves four system calls.
	if st.Nlink == 2 {
		return nil, nil
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	var dirs []string
	for len(dirs) < maxGroups {
		entries, err := folder.ReadDir(256)
		for _, entry := range entries {
			if entry.IsDir() {
				dirs = append(dirs, dir+"/"+entry.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}

// isGroup reports whether dir is the folder of a group. It returns an error if dir is a file of the kernel: a group cannot have the name
// of such a file, for example "tasks".
func isGroup(dir string) (bool, error) {
	var st unix.Stat_t
	err := unix.Lstat(dir, &st)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false, fmt.Errorf("%s is a file of the kernel, not a group; use another name", dir)
	}
	return true, nil
}
