package cgroup

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/internal/errline"
	"golang.org/x/sys/unix"
)

// Candor's parent group carries the name of the state that its groups belong to, as
// an extended attribute. Two states on one parent would take each other's groups for
// what a killed candor left, and end them.

var ownerMark = markNamed("state")

// Owner returns the state that Candor's groups belong to: the Options.Owner of who
// made or claimed them. It is "" where there is no group, or nobody's.
func (t *Tree) Owner() (string, error) { return ownerMark.read(t.cpuset.parent) }

// Claim makes Candor's parent group, if it is there, Options.Owner's. That is
// ErrOwned while there are groups in it that belong to another state; a state
// without groups needs none. Create does it by itself. Where groups can't carry a mark (Linux before 5.7
// without root) there is no claim and no error.
func (t *Tree) Claim() error {
	for range retries {
		owner, err := t.Owner()
		if err != nil || t.owner == "" || owner == t.owner {
			return err
		}
		if owner != "" {
			return t.takeOver(owner)
		}
		if err = t.mark(t.owner, unix.XATTR_CREATE); !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return fmt.Errorf("cgroup %s: its owner changes all the time", t.cpuset.parent)
}

// takeOver claims what another state has no groups in. It marks and then looks
// for groups; who makes a group looks at the mark afterwards. So of two at the same
// time one sees the other.
func (t *Tree) takeOver(from string) error {
	if err := t.vacant(from); err != nil {
		return err
	}
	if err := t.mark(t.owner, 0); err != nil {
		return err
	}
	if err := t.vacant(from); err != nil {
		return errline.Join(err, t.mark(from, 0))
	}
	return nil
}

// vacant is ErrOwned where there is a group.
func (t *Tree) vacant(owner string) error {
	names, err := t.Groups()
	if err == nil && len(names) > 0 {
		err = t.Owned(owner)
	}
	return err
}

// Owned is the error that says that the groups are another state's.
func (t *Tree) Owned(owner string) error {
	return fmt.Errorf("cgroup %s: %w %s: use that one (--state-dir), or another group (--cgroup-parent)", t.cpuset.parent, ErrOwned, owner)
}

// mark writes the owner's name, where groups can carry it.
func (t *Tree) mark(owner string, flags int) error {
	err := ownerMark.write(t.cpuset.parent, owner, flags)
	if errors.Is(err, errNoMarks) {
		return nil
	}
	return err
}

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

// Annotation returns what SetNote has left at a group; "" if nothing.
func (g *Group) Annotation() (string, error) {
	if g.err != nil {
		return "", g.err
	}
	return noteMark.read(g.dir(g.tree.cpu))
}

// SetAnnotation leaves a text at a group of somebody else's, for as long as the group is there: what Candor
// has to know to undo what it writes.
func (g *Group) SetAnnotation(text string) error {
	if g.err != nil {
		return g.err
	}
	return noteMark.write(g.dir(g.tree.cpu), text, 0)
}
