package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A mark is text that a group carries, as an extended attribute: it goes with the group. It has two
// names: users may set the first, on Linux 5.7 and later; older kernels know the second, which is root's.
type mark [2]string

func markNamed(name string) mark { return mark{"user.candor." + name, "trusted.candor." + name} }

// errNoMarks: groups of this kernel cannot carry marks, or this user may not set them.
var errNoMarks = errors.New("it cannot carry a mark")

// read returns "" where there is no mark, or no group.
func (m mark) read(dir string) (string, error) {
	for _, name := range m {
		value := make([]byte, unix.PathMax)
		n, err := unix.Getxattr(dir, name, value)
		switch err {
		case nil:
			return string(value[:n]), nil
		case unix.ENODATA, unix.EOPNOTSUPP: // the other one, perhaps
		case unix.ENOENT, unix.ENODEV:
			return "", nil
		default:
			return "", fmt.Errorf("cgroup %s: read %s: %w", dir, name, err)
		}
	}
	return "", nil
}

// write does nothing where there is no group.
func (m mark) write(dir, value string, flags int) error {
	for _, name := range m {
		switch err := unix.Setxattr(dir, name, []byte(value), flags); err {
		case nil, unix.ENOENT, unix.ENODEV:
			return nil
		case unix.EOPNOTSUPP, unix.EPERM, unix.EACCES: // the other one, perhaps
		default:
			return fmt.Errorf("cgroup %s: write %s: %w", dir, name, err)
		}
	}
	return fmt.Errorf("cgroup %s: %w", dir, errNoMarks)
}

var noteMark = markNamed("note")

// Note returns what SetNote has left at a group; "" if nothing.
func (g *Group) Note() (string, error) {
	if g.err != nil {
		return "", g.err
	}
	return noteMark.read(g.dir(g.tree.cpu))
}

// SetNote leaves a text at a group of somebody else's, for as long as the group is there: what Candor
// has to know to undo what it writes.
func (g *Group) SetNote(text string) error {
	if g.err != nil {
		return g.err
	}
	return noteMark.write(g.dir(g.tree.cpu), text, 0)
}
