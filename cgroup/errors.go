package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

var (
	// ErrNoCPU and ErrNoCpuset: the kernel does not offer that controller here.
	ErrNoCPU    = errors.New("no cpu controller")
	ErrNoCpuset = errors.New("no cpuset controller")
	// ErrNotDelegated: this user, or this place in the tree, may not make groups.
	ErrNotDelegated = errors.New("not delegated")
	// ErrBusy: the group has processes.
	ErrBusy = errors.New("the group has processes")
	// ErrOwned: Candor's parent group has groups of another state.
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

// undoError adds the error of an undo to the error that caused it.
func undoError(err error) error {
	return fmt.Errorf("cannot undo the change, and a part of it remains: %w", err)
}

// isGone reports that a group was removed: while its files were open (ENODEV), or before (ENOENT).
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
