// Package kernfile reads files that the kernel makes up when they are read, such as those of /proc and /sys.
package kernfile

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Read is os.ReadFile by system calls. An os.File that can be waited for, as those of /sys can, is given to the runtime's poller:
// that wakes another thread, and takes longer than to read it. Of the others it saves the attempt. The error is a *fs.PathError.
func Read(name string) ([]byte, error) { return read(name, false) }

// ReadPiece is Read of a file that the kernel writes in one piece, such as a number or a list of CPUs: what does not fill the
// buffer is all, without another call that says so.
func ReadPiece(name string) ([]byte, error) { return read(name, true) }

func read(name string, onePiece bool) ([]byte, error) {
	if err := FaultOf(ReadAccess, name); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	fd, err := again(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := again(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		switch {
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0 || onePiece && len(text)+n < cap(text):
			return text[:len(text)+n], nil
		}
		text = text[:len(text)+n]
	}
}

// again calls until no signal interrupts.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR {
			return n, err
		}
	}
}
