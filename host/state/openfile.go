package state

import (
	"os"

	"golang.org/x/sys/unix"
)

// An openFile is one that this process has written and holds open. While it does, no other file can have its inode: the one
// that has its name later is the same, or it is another one. All who write the state put another file in its place; who edits
// it by hand leaves other times, a tick of the clock (10 ms) after it was written.
type openFile struct {
	*os.File
	stamp stamp
}

// A stamp is what tells a file, and what was written to it, from others while the file is open.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// stampOf does not follow a link.
func stampOf(name string) (stamp, error) {
	var s unix.Stat_t
	err := unix.Lstat(name, &s)
	return newStamp(&s), err
}

func newStamp(s *unix.Stat_t) stamp {
	return stamp{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}
}

// keepOpen takes over a file that a state was written to.
func (s *Saved) keepOpen(file *os.File) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		file.Close() // it is read again
		return
	}
	s.file = openFile{file, newStamp(&stat)}
}

// is reports whether a file that has been looked at is this one, as it was written.
func (f *openFile) is(found stamp) bool { return f.File != nil && f.stamp == found }

func (f *openFile) close() {
	if f.File != nil {
		f.File.Close()
	}
}
