// Package fileio reads and writes small files as a whole: it reads plain files of bounded size, and replaces files atomically.
package fileio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Read reads a plain file of at most limit bytes. It follows links. For a pipe, a device or a directory, it returns an error and does not
// wait.
func Read(name string, limit int64) ([]byte, error) { return read(name, limit, 0) }

// ReadNoLink reads a file as Read does, but returns an error for a symbolic link.
func ReadNoLink(name string, limit int64) ([]byte, error) { return read(name, limit, unix.O_NOFOLLOW) }

func read(name string, limit int64, flags int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, limit)
}

// ReadOpen reads an open file as Read does. The file must have been opened with O_NONBLOCK, so that a pipe does not block.
func ReadOpen(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("not a plain file")}
	}
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead)) // MinRead bytes more, so that the read that finds the end does not grow the buffer
	_, err = data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(data.Len()) > limit {
		err = &TooLongError{f.Name(), limit}
	}
	return data.Bytes(), err
}

// A TooLongError reports a file beyond its size limit.
type TooLongError struct {
	Name  string
	Limit int64 // bytes
}

func (e *TooLongError) Error() string { return fmt.Sprintf("%s: more than %d bytes", e.Name, e.Limit) }

// Replace replaces a file with data atomically, also if the machine crashes meanwhile. Every user can read the file, regardless of the
// umask. The caller must hold a lock, because the temporary file has a fixed name: "." and the name of the file.
func Replace(name string, data []byte) error {
	f, err := ReplaceOpen(name, data)
	if err != nil {
		return err
	}
	return f.Close()
}

// ReplaceOpen replaces a file as Replace does, and returns the new file open. A caller can later compare the inode number to see whether
// the file was replaced again. While a file is open, the kernel gives its inode number to no other file.
func ReplaceOpen(name string, data []byte) (*os.File, error) {
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name))
	f, err := writeSynced(temp, data)
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		os.Remove(temp)
	} else {
		err = syncDir(filepath.Dir(name))
	}
	if err != nil && f != nil {
		f.Close()
	}
	return f, err
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// writeSynced writes and syncs a new file. It returns the open file even if the write failed.
func writeSynced(name string, data []byte) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	err = f.Chmod(0o644)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	return f, err
}

// MakeDir creates a directory that every user can read, regardless of the umask. An existing directory does not change.
func MakeDir(name string) error {
	err := os.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(name, 0o755)
}

// MakeDirs creates a directory as MakeDir does, and its missing parents.
func MakeDirs(name string) error {
	err := MakeDir(name)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(name) != name {
		if err = MakeDirs(filepath.Dir(name)); err == nil {
			err = MakeDir(name)
		}
	}
	return err
}

// DecodeStrict decodes a single JSON value with known fields. It refuses data after the value.
func DecodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("empty")
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data after the end")
	}
	return nil
}

// JSONText returns a value as indented JSON with a newline at its end.
func JSONText(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", " ")
	return append(data, '\n'), err
}
