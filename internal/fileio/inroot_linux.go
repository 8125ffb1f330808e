package fileio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenInRoot opens a path of another process's file system for reading, without waiting: root is the directory of that file
// system, such as /proc/1/root. Absolute links and ".." are resolved within root, as for that process. The error has the path
// within root. flags are additional flags of open, such as O_NOFOLLOW or O_DIRECTORY.
//
// The function needs openat2 for this. On kernels before Linux 5.6, and under a system call filter that does not allow openat2,
// absolute links are resolved in the caller's file system.
func OpenInRoot(root, path string, flags int) (*os.File, error) {
	flags |= unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open the file system of", Path: path, Err: err}
	}
	defer unix.Close(dir)
	options := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, path, &options)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(filepath.Join(root, path), flags, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ReadInRoot reads a regular file of another process's file system, as Read does. OpenInRoot explains root and path.
func ReadInRoot(root, path string, limit int64) ([]byte, error) {
	f, err := OpenInRoot(root, path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, limit)
}
