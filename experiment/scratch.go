package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/procfs"
)

// A scratch is a lab's folder for what its programs write. A link beside the lab's state says where it is, so that the guard,
// or the next lab, finds it.
type scratch struct {
	link string
	dir  string // "": none
}

// scratch is the folder of a place, if it has one.
func (p place) scratch() scratch {
	s := scratch{link: p.dir + scratchSuffix}
	if dir, err := os.Readlink(s.link); err == nil && filepath.Base(dir) == filepath.Base(p.dir) { // ours, by its name
		s.dir = dir
	}
	return s
}

const scratchSuffix = ".scratch"

// ErrBadFolder is a folder in which programs cannot write what they have to.
var ErrBadFolder = errors.New("bad folder")

// openScratch makes the lab's folder within another one, which needs room for so many bytes.
func (l *Lab) openScratch(within string, room uint64) error {
	within, err := filepath.Abs(within)
	if err != nil {
		return err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(within, &stat); err != nil {
		return fmt.Errorf("%w %s: %w", ErrBadFolder, within, err)
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < room {
		return fmt.Errorf("%w %s: %d MiB are free: want %d MiB", ErrBadFolder, within, free>>20, room>>20)
	}
	s := l.place.scratch()
	s.dir = filepath.Join(within, filepath.Base(l.dir))
	if err := os.Symlink(s.dir, s.link); err != nil { // before the folder: nothing is there that nobody knows of
		return err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrBadFolder, err)
	}
	return nil
}

// fresh empties one of the folders that programs have in it.
func (s scratch) fresh(name string) (dir string, err error) {
	dir = filepath.Join(s.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return dir, err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// remove removes it all. Nothing may write there any more.
func (s scratch) remove() error {
	if s.dir != "" {
		if err := os.RemoveAll(s.dir); err != nil {
			return err
		}
	}
	if err := os.Remove(s.link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fileSystem is the kind that a folder is on, such as ext4.
func fileSystem(dir string) (kind string, err error) {
	var of unix.Stat_t
	if err := unix.Stat(dir, &of); err != nil {
		return "", &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	kind = "unknown"
	device := fmt.Sprintf(" %d:%d ", unix.Major(uint64(of.Dev)), unix.Minor(uint64(of.Dev)))
	err = procfs.EachMount("/proc/self/mountinfo", procfs.MaxHostMounts, []string{device}, func(m *mountinfo.Info) {
		if uint64(of.Dev) == unix.Mkdev(uint32(m.Major), uint32(m.Minor)) {
			kind = m.FSType
		}
	})
	return kind, err
}
