package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// Candor's parent group has the name of its state as an extended attribute. Two states on the same parent would take each other's
// groups for leftovers of a killed candor, and end them.

var ownerMark = newMark("state")

// Owner returns the state that owns Candor's groups: the Options.Owner of their creator. It is "" without a group or an owner.
func (t *Tree) Owner() (string, error) { return ownerMark.read(t.cpuset.parent) }

// Claim sets the owner of Candor's parent group, if it exists, to Options.Owner. It returns ErrOwned while the group has groups of
// another state; a state without groups does not own it. Create claims the group itself. If groups cannot have the attribute (Linux
// before 5.7 without root), Claim does nothing.
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

// takeOver claims a parent group from a state without groups. It sets the mark first and then looks for groups; Create does it in the
// reverse order. So of two concurrent callers, at least one notices the other.
func (t *Tree) takeOver(source string) error {
	if err := t.checkVacant(source); err != nil {
		return err
	}
	if err := t.writeOwner(t.owner, 0); err != nil {
		return err
	}
	if err := t.checkVacant(source); err != nil {
		return errline.Join(err, t.writeOwner(source, 0))
	}
	return nil
}

// checkVacant returns ErrOwned if there is a group.
func (t *Tree) checkVacant(owner string) error {
	names, err := t.Groups()
	if err == nil && len(names) > 0 {
		err = t.Owned(owner)
	}
	return err
}

// Owned returns the error for groups of another state.
func (t *Tree) Owned(owner string) error {
	return fmt.Errorf("cgroup %s: %w %s; use that state (--state-dir), or another group (--cgroup-parent)", t.cpuset.parent, ErrOwned, owner)
}

// writeOwner writes the owner's name, where groups can carry it.
func (t *Tree) writeOwner(owner string, flags int) error {
	err := ownerMark.write(t.cpuset.parent, owner, flags)
	if errors.Is(err, errNoXattr) {
		return nil
	}
	return err
}

// A mark is text that a group carries, as an extended attribute: it goes with the group. It has two
// names: users may set the first, on Linux 5.7 and later; older kernels know the second, which is root's.
type mark [2]string

func newMark(name string) mark { return mark{"user.candor." + name, "trusted.candor." + name} }

// errNoXattr: groups of this kernel cannot carry marks, or this user may not set them.
var errNoXattr = errors.New("it cannot store an extended attribute")

// read returns "" without a mark or a group.
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

// write does nothing if there is no group.
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

var noteMark = newMark("note")

// Annotation returns the text of SetAnnotation, or "".
func (g *Group) Annotation() (string, error) {
	if g.err != nil {
		return "", g.err
	}
	return noteMark.read(g.dir(g.tree.cpu))
}

// SetAnnotation stores a text at a foreign group, for the life of the group: the facts that Candor needs to undo its writes.
func (g *Group) SetAnnotation(text string) error {
	if g.err != nil {
		return g.err
	}
	return noteMark.write(g.dir(g.tree.cpu), text, 0)
}
