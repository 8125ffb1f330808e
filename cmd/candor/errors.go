package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes. A program that candor run started passes its own through.
const (
	exitFailure  = 1
	exitBadInput = 2
)

// An exitError ends candor with a given exit code. If err is nil, candor prints nothing: the code of a program is the whole
// result.
type exitError struct {
	code int
	err  error // nil: print no message
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// badInput returns the error for a value that cannot be meant: exit code 2.
func badInput(format string, args ...any) error {
	return &exitError{exitBadInput, fmt.Errorf(format, args...)}
}

// flagError returns the error for an unknown flag of a command.
func flagError(cmd *cobra.Command, err error) error {
	if errors.As(err, new(*pflag.NotExistError)) {
		return fmt.Errorf("%w: %s --help lists them", err, cmd.CommandPath())
	}
	return err
}

// exitCode returns the code for an error. An error from before the start of a command is bad input, except a failed write of
// the help or the version.
func exitCode(err error, started bool) int {
	var exit *exitError
	var file *fs.PathError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &file) && file.Op == "write":
		return exitFailure
	case !started:
		return exitBadInput
	default:
		return exitFailure
	}
}
