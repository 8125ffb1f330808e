// Package kernelfs reads files that the kernel generates when they are read, such as the files in /proc and /sys.
// Every function has a bound: a tenant can grow some of these files, such as a mount table, to hundreds of megabytes.
package kernelfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// MaxSize is the maximum size in bytes of a file for Read and ReadPiece. The longest file without content from tenants is the
// cpuset list of a machine with thousands of CPUs: about ten kilobytes.
const MaxSize = 1 << 20

// ErrTooLong reports a file that is longer than the maximum of the call.
var ErrTooLong = errors.New("file too long")

// Read returns the content of a file of at most MaxSize bytes, or ErrTooLong for a longer file. It makes the system calls itself,
// because os.ReadFile registers pollable files, such as files in /sys, with the runtime's poller. The registration wakes another
// thread and takes longer than the read. The error is a *fs.PathError.
func Read(name string) ([]byte, error) { return read(name, MaxSize, false) }

// ReadLong reads a file as Read does, with limit bytes as the maximum.
func ReadLong(name string, limit int) ([]byte, error) { return read(name, limit, false) }

// ReadPiece reads a file as Read does, but omits the second read, which only finds the end of the file. It is for files that the kernel
// returns in a single read, such as a number or a list of CPUs.
func ReadPiece(name string) ([]byte, error) { return read(name, MaxSize, true) }

func read(name string, limit int, onePiece bool) ([]byte, error) {
	text, isWhole, err := readStart(name, limit, onePiece)
	if err == nil && !isWhole {
		err = &fs.PathError{Op: "read", Path: name, Err: ErrTooLong}
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// ReadStart returns at most the first limit bytes of a file, and reports whether they are the whole file.
func ReadStart(name string, limit int) (text []byte, isWhole bool, err error) {
	return readStart(name, limit, false)
}

func readStart(name string, limit int, onePiece bool) (text []byte, isWhole bool, err error) {
	f, err := open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.close()
	text = make([]byte, 0, min(512, limit+1))
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := f.read(text[len(text):cap(text)])
		if err != nil {
			return nil, false, err
		}
		isEnd := n == 0 || onePiece && len(text)+n < cap(text)
		if text = text[:len(text)+n]; len(text) > limit {
			return text[:limit], false, nil
		}
		if isEnd {
			return text, true, nil
		}
	}
}

// A file is an open file that is not registered with the runtime's poller.
type file struct {
	name string
	fd   int
}

func open(name string) (file, error) {
	if err := FaultOf(ReadAccess, name); err != nil {
		return file{}, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return file{}, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return file{name, fd}, nil
}

// read returns 0 at the end of the file.
func (f file) read(into []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.Read(f.fd, into) })
	if err != nil {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
	}
	return n, nil
}

func (f file) close() { unix.Close(f.fd) }

// retry repeats a system call that a signal interrupted (EINTR).
func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR {
			return n, err
		}
	}
}
