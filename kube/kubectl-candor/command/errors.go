package command

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Exit codes.
const (
	exitFailure  = 1
	exitBadInput = 2
	exitSignal   = 128 // plus the number of the signal
)

// An inputError is the error for invalid flags, arguments and files.
type inputError struct{ error }

func (e *inputError) Unwrap() error { return e.error }

// badInput returns the error for invalid input. Its text lists the accepted values. The exit code is 2.
func badInput(format string, args ...any) error { return &inputError{fmt.Errorf(format, args...)} }

// A signalError is the cause of a canceled context after a signal.
type signalError struct{ syscall.Signal }

func (e *signalError) Error() string { return "ended by the signal " + e.Signal.String() }

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	if s, ok := errors.AsType[*signalError](err); ok {
		return exitSignal + int(s.Signal)
	}
	if _, ok := errors.AsType[*inputError](err); ok {
		return exitBadInput
	}
	return exitFailure
}

// acceptedOf has the accepted values of the flags that package pflag parses, by their type. The errors of the other flags list
// their accepted values themselves.
var acceptedOf = map[string]string{
	"bool":     "true or false",
	"duration": "a duration such as 10s or 1m",
	"int":      "a whole number",
}

// flagError returns the error for a flag that cannot be parsed.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if accepted := acceptedOf[invalid.GetFlag().Value.Type()]; accepted != "" {
			return badInput("--%s %.60q: must be %s", invalid.GetFlag().Name, invalid.GetValue(), accepted)
		}
		return badInput("--%s %.60q: %w", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	}
	return badInput("%w; %s --help lists the flags", err, cmd.CommandPath())
}

// noArgs refuses arguments.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badInput("argument %.60q: the command takes no arguments", args[0])
	}
	return nil
}

// oneArg returns a check that requires a single argument with a name such as POD.
func oneArg(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return badInput("%d arguments: must be 1, the %s", len(args), name)
		}
		return nil
	}
}

// withRights adds the next step to the error of an API server that refuses a call.
func withRights(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; the ClusterRoles candor-view and candor-admin have the rights (docs/kubectl.md)", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; kubectl auth whoami shows the user of the kubeconfig", err)
	}
	return err
}

// oneLine returns a text as a single line without control characters: parts of it can come from nodes and tenants.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
