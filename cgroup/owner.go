package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// ownerMark holds the owner of Candor's parent group: the Candor state (Options.Owner) to which the groups below it belong. Without an
// owner, two states with the same parent group would take each other's groups for leftovers of a killed candor process, and end these
// groups.
var ownerMark = newMark("state")

// Owner returns the owner of Candor's parent group, which is the Options.Owner of the process that claimed the group. It returns "" if
// there is no parent group or no owner.
func (t *Tree) Owner() (string, error) { return ownerMark.read(t.cpuset.parent) }

// Claim makes Options.Owner the owner of Candor's parent group, if the group exists. It returns ErrOwned if another state owns the parent
// group and the parent group has children; without children, Claim replaces the owner. Create calls Claim. If groups cannot have the
// extended attribute (Linux before 5.7 without root), Claim does nothing.
func (t *Tree) Claim() error {
	for range retries {
		owner, err := t.Owner()
		if err != nil || t.owner == "" || owner == t.owner {
			return err
		}
		if owner != "" {
			return t.takeOver(owner)
		}
		if err = t.writeOwner(t.owner, unix.XATTR_CREATE); !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return fmt.Errorf("cgroup %s: its owner keeps changing", t.cpuset.parent)
}

// takeOver replaces the owner of a parent group without children. It writes the owner first and then searches for children again. Create
// first creates a child and then reads the owner. So if two states call takeOver and Create at the same time, at least one of them
// returns an error.
func (t *Tree) takeOver(oldOwner string) error {
	if err := t.checkVacant(oldOwner); err != nil {
		return err
	}
	if err := t.writeOwner(t.owner, 0); err != nil {
		return err
	}
	if err := t.checkVacant(oldOwner); err != nil {
		return errline.Join(err, t.writeOwner(oldOwner, 0))
	}
	return nil
}

// checkVacant returns ErrOwned if the parent group has children. owner is for the error.
func (t *Tree) checkVacant(owner string) error {
	names, err := t.Groups()
	if err == nil && len(names) > 0 {
		err = t.Owned(owner)
	}
	return err
}

// Owned returns an ErrOwned with the path of Candor's parent group, the state that owns the groups there, and a remedy.
func (t *Tree) Owned(owner string) error {
	return fmt.Errorf("cgroup %s: %w %s; use that state (--state-dir), or another group (--cgroup-parent)", t.cpuset.parent, ErrOwned, owner)
}

// writeOwner writes the owner of Candor's parent group. It does nothing if groups cannot have extended attributes.
func (t *Tree) writeOwner(owner string, flags int) error {
	err := ownerMark.write(t.cpuset.parent, owner, flags)
	if errors.Is(err, errNoXattr) {
		return nil
	}
	return err
}

// A mark is an extended attribute that stores a text at a group until the group is removed. The type holds the two possible names of the
// attribute. Every user can set the first attribute, but only on Linux 5.7 or later. Older kernels support the second attribute,
// which only root can set.
type mark [2]string

func newMark(name string) mark { return mark{"user.candor." + name, "trusted.candor." + name} }

// errNoXattr means that groups of this kernel cannot have either attribute, or that this user cannot set the attribute.
var errNoXattr = errors.New("it cannot store an extended attribute")

// read returns the text of the mark at the group in dir. It returns "" if the group or the mark does not exist.
func (m mark) read(dir string) (string, error) {
	for _, name := range m {
		value := make([]byte, unix.PathMax)
		n, err := unix.Getxattr(dir, name, value)
		switch err {
		case nil:
			return string(value[:n]), nil
		case unix.ENODATA, unix.EOPNOTSUPP: // try the other attribute
		case unix.ENOENT, unix.ENODEV:
			return "", nil
		default:
			return "", fmt.Errorf("cgroup %s: read %s: %w", dir, name, err)
		}
	}
	return "", nil
}

// write stores a text as the mark of the group in dir. It does nothing if the group does not exist. flags are the flags of setxattr(2).
func (m mark) write(dir, value string, flags int) error {
	for _, name := range m {
		switch err := unix.Setxattr(dir, name, []byte(value), flags); err {
		case nil, unix.ENOENT, unix.ENODEV:
			return nil
		case unix.EOPNOTSUPP, unix.EPERM, unix.EACCES: // try the other attribute
		default:
			return fmt.Errorf("cgroup %s: write %s: %w", dir, name, err)
		}
	}
	return fmt.Errorf("cgroup %s: %w", dir, errNoXattr)
}

var annotationMark = newMark("note")

// Annotation returns the text that SetAnnotation stored, or "".
func (g *Group) Annotation() (string, error) {
	if g.err != nil {
		return "", g.err
	}
	return annotationMark.read(g.dir(g.tree.cpu))
}

// SetAnnotation stores a text at a foreign group until the group is removed. Candor stores there the former values that it needs to undo
// its writes.
func (g *Group) SetAnnotation(text string) error {
	if g.err != nil {
		return g.err
	}
	return annotationMark.write(g.dir(g.tree.cpu), text, 0)
}
