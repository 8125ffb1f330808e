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

// A scratch is the folder for the files of a lab's programs. A symbolic link beside the lab's state points to the folder,
// so that the guard process or the next lab can find and remove the folder.
type scratch struct {
	link string
	dir  string // "": no folder
}

// scratch returns the scratch folder of the lab at this place. It follows the symbolic link beside the state directory. If there is no
// folder, dir is "".
func (p place) scratch() scratch {
	s := scratch{link: p.dir + scratchSuffix}
	if dir, err := os.Readlink(s.link); err == nil && filepath.Base(dir) == filepath.Base(p.dir) { // the name shows that the lab created it
		s.dir = dir
	}
	return s
}

const scratchSuffix = ".scratch"

// ErrBadFolder means that a folder cannot be used for the programs' files.
var ErrBadFolder = errors.New("bad folder")

// openScratch creates the lab's scratch folder in the existing folder that the parameter within names. It returns ErrBadFolder if
// the file system of the existing folder has fewer than room free bytes.
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
		return fmt.Errorf("%w %s: %d MiB are free; it must have %d MiB", ErrBadFolder, within, free>>20, room>>20)
	}
	s := l.place.scratch()
	s.dir = filepath.Join(within, filepath.Base(l.dir))
	if err := os.Symlink(s.dir, s.link); err != nil { // before the folder, so that no folder exists without a link
		return err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil { //nolint:gosec // root chooses the folder, and Mkdir refuses an existing name
		return fmt.Errorf("%w: %w", ErrBadFolder, err)
	}
	return nil
}

// emptyFolder creates a subfolder, or empties an existing subfolder, and returns its path.
func (s scratch) emptyFolder(name string) (dir string, err error) {
	dir = filepath.Join(s.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return dir, err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// remove removes the folder and the link. No process may write into the folder any more.
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

// fileSystem returns the type of a folder's file system, such as ext4.
func fileSystem(dir string) (kind string, err error) {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return "", &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	kind = "unknown"
	device := fmt.Sprintf(" %d:%d ", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	err = procfs.EachMount("/proc/self/mountinfo", procfs.MaxHostMounts, []string{device}, func(m *mountinfo.Info) {
		if stat.Dev == unix.Mkdev(uint32(m.Major), uint32(m.Minor)) {
			kind = m.FSType
		}
	})
	return kind, err
}
