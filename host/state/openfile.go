package state

import (
	"os"

	"golang.org/x/sys/unix"
)

// An openFile is a state file that this process has written and still holds open. No other file can get its inode until
// it is closed, so a file with the same name and inode is the same file. Candor replaces the state file and never
// writes it in place. The file's times reveal a manual edit, if it comes at least a clock tick (10 ms) after Candor's
// write.
type openFile struct {
	*os.File
	stamp stamp
}

// A stamp identifies the content of an open file.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// stampOf returns the stamp of a file. It does not follow a symbolic link.
func stampOf(name string) (stamp, error) {
	var s unix.Stat_t
	err := unix.Lstat(name, &s)
	return newStamp(&s), err
}

func newStamp(s *unix.Stat_t) stamp {
	return stamp{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim} //nolint:unconvert // uint32 on some architectures
}

// keepOpen takes ownership of the file to which s was written.
func (s *Saved) keepOpen(file *os.File) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		file.Close() // the next Load reads the file again
		return
	}
	s.file = openFile{file, newStamp(&stat)}
}

// matches reports whether a stamp belongs to this file and its written content.
func (f *openFile) matches(found stamp) bool { return f.File != nil && f.stamp == found }

func (f *openFile) close() {
	if f.File != nil {
		f.File.Close()
	}
}
