package guest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Archive writes a cpio archive in the format that the kernel unpacks ("newc"). After an error, the methods write nothing, and Close
// returns the error.
type Archive struct {
	w    io.Writer
	dirs map[string]bool // names of the directories and links in the archive so far
	err  error
}

// NewArchive returns an archive that writes to w.
func NewArchive(w io.Writer) *Archive {
	return &Archive{w: w, dirs: map[string]bool{"": true}}
}

// Copy adds a file or a whole directory of this machine under a name.
func (a *Archive) Copy(name, from string) error {
	return filepath.WalkDir(from, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if err := a.copyOne(path.Join(name, rel), p, p == from); err != nil {
			return err
		}
		return a.err
	})
}

// copyOne adds a single file, link or directory. If follow is true and from is a link, copyOne adds the file that the link refers to.
func (a *Archive) copyOne(name, from string, follow bool) error {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	info, err := stat(from)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		a.Directory(name)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		a.Link(name, target)
	case mode.IsRegular():
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		a.File(name, permissions(mode), info.Size(), f)
	default:
		return fmt.Errorf("%s is neither a file, a link nor a directory", from)
	}
	return nil
}

func permissions(m fs.FileMode) int {
	bits := int(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= unix.S_ISUID
	}
	return bits
}

// Directory adds a directory and the directories above it.
func (a *Archive) Directory(name string) {
	name = clean(name)
	if a.dirs[name] {
		return
	}
	a.Directory(path.Dir(name))
	a.dirs[name] = true
	a.entry(name, unix.S_IFDIR|0o755, 0, nil)
}

// Link adds a symbolic link.
func (a *Archive) Link(name, target string) {
	name = a.addParents(name)
	a.dirs[name] = true
	a.entry(name, unix.S_IFLNK|0o777, int64(len(target)), bytes.NewReader([]byte(target)))
}

// File adds a file with the first size bytes of r.
func (a *Archive) File(name string, perm int, size int64, r io.Reader) {
	a.entry(a.addParents(name), unix.S_IFREG|perm, size, r)
}

// Text adds a file with a text.
func (a *Archive) Text(name, text string) {
	a.File(name, 0o644, int64(len(text)), strings.NewReader(text))
}

// Close writes the end of the archive. It does not close the writer.
func (a *Archive) Close() error {
	a.entry("TRAILER!!!", 0, 0, nil)
	return a.err
}

// addParents adds the directories above a name, and returns the clean name.
func (a *Archive) addParents(name string) string {
	a.Directory(path.Dir(clean(name)))
	return clean(name)
}

// clean returns a name in the form of the archive: without a slash at the start.
func clean(name string) string {
	return path.Clean("/" + name)[1:]
}

func (a *Archive) entry(name string, mode int, size int64, r io.Reader) {
	if a.err != nil {
		return
	}
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		0, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	if _, a.err = io.WriteString(a.w, header+padding(int64(len(header)))); a.err != nil || r == nil {
		return
	}
	n, err := io.Copy(a.w, io.LimitReader(r, size))
	if err == nil && n != size {
		err = fmt.Errorf("%s: %d bytes instead of %d: did it change?", name, n, size)
	}
	if err == nil {
		_, err = io.WriteString(a.w, padding(size))
	}
	a.err = err
}

// padding returns the zero bytes that follow n bytes, so that the total is a multiple of four.
func padding(n int64) string {
	return "\x00\x00\x00"[:(4-n%4)%4]
}
