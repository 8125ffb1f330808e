package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

var (
	// ErrNoCPU means that the kernel, or the parent group, does not offer the cpu controller.
	ErrNoCPU = errors.New("no cpu controller")
	// ErrNoCpuset means that the kernel, or the parent group, does not offer the cpuset controller.
	ErrNoCpuset = errors.New("no cpuset controller")
	// ErrNotDelegated means that this user cannot create groups at all, or cannot create groups in this part of the tree.
	ErrNotDelegated = errors.New("not delegated")
	// ErrBusy means that the group has processes.
	ErrBusy = errors.New("the group has processes")
	// ErrOwned means that Candor's parent group has groups of another state.
	ErrOwned = errors.New("belongs to the state in")
	// ErrNoGroup reports a missing group.
	ErrNoGroup = errors.New("no such group")
	// ErrUnavailable reports CPUs or memory nodes that the parent group does not have, such as an offline CPU.
	ErrUnavailable = errors.New("not available")
)

// A WriteError is the kernel's refusal of a value.
type WriteError struct {
	File  string // full path
	Value string
	Err   error // the kernel's errno
}

func (e *WriteError) Error() string {
	const maxLength = 100
	value := e.Value
	if len(value) > maxLength {
		value = value[:maxLength] + "…"
	}
	return fmt.Sprintf("write %q to %s: %v", value, e.File, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

// undoError marks the error of a failed undo.
func undoError(err error) error {
	return fmt.Errorf("cannot undo the change, and a part of it remains: %w", err)
}

// isGone reports whether an error means that a group was removed: while the group's file was open (ENODEV), or before the file was
// opened (ErrNotExist).
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
