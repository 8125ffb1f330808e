// Command candor lets containers see as many CPUs as their limit, rounded up. Most files hold a subcommand: its flags, a call of the
// package that does the work, and the output.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	if class, ours := runtimeClass(os.Args[0]); ours {
		os.Exit(runAsRuntime(class, os.Args[1:]))
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code of the process.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	root, started := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetFlagErrorFunc(flagError)
	helped := checkHelp(root)
	cmd, err := root.ExecuteC()
	if err == nil {
		err = *helped
	}
	if err == nil {
		return 0
	}
	if line := errorLine(err); line != "" {
		fmt.Fprintf(errOut, "%s: %s\n", cmd.CommandPath(), line)
	}
	return exitCode(err, *started)
}

// errorLine returns an error as a single line without control characters: parts of it can come from hostile input.
func errorLine(err error) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, err.Error())
}

// Exit codes. If candor run started a program, candor exits with the exit code of the program.
const (
	exitFailure   = 1
	exitBadInput  = 2
	exitUndecided = 3 // the measurement does not suffice for an answer
)

// An exitError ends candor with a given exit code. If err is nil, candor prints nothing. For example, candor run returns the exit code of
// its program without a message.
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

// badInput returns the error for invalid input. candor then exits with code 2. All errors for flags and arguments are badInput errors, and
// their text has one of these forms, which main prefixes with the command:
//
//	candor run: missing --cpu; must be a limit such as 2, 1.5 or 1500m  (missing)
//	candor top: --interval 5h0m0s: must be 100ms to 1m0s
//	candor top: --once and -n: use one of them
//	candor ps: unknown flag --foo; candor ps --help lists the flags     (flagError)
func badInput(format string, args ...any) error {
	return &exitError{exitBadInput, fmt.Errorf(format, args...)}
}

// undecided returns the error for a measurement that does not suffice for an answer. candor then exits with code 3.
func undecided(text string) error { return &exitError{exitUndecided, errors.New(text)} }

// missing returns the error for a required flag or argument that is missing, with the accepted values.
func missing(name, accepted string) error { return badInput("missing %s; must be %s", name, accepted) }

// flagError returns the error for a flag that cannot be parsed, in the form of badInput.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = name[1:]
		}
		return badInput("unknown flag %s; %s --help lists the flags", name, cmd.CommandPath())
	case errors.As(err, &empty):
		return badInput("--%s without a value; %s --help lists the values", empty.GetFlag().Name, cmd.CommandPath())
	case errors.As(err, &invalid):
		return badInput("--%s %.60q: %s", invalid.GetFlag().Name, invalid.GetValue(), causeOf(invalid))
	}
	return err
}

// acceptedOf has the accepted values of the flags that package pflag parses, by their type. The errors of all other flags list their
// accepted values themselves.
var acceptedOf = map[string]string{
	"bool":           "true or false",
	"duration":       "a duration such as 100ms or 2s",
	"durationSlice":  "durations separated by commas, such as 20ms,1s",
	"float64":        "a number",
	"int":            "a whole number",
	"int64":          "a whole number",
	"stringToString": "pairs separated by commas, such as app=web",
	"uint64":         "a whole number of 0 or more",
}

// causeOf returns the reason why a value is invalid, without a repetition of the value.
func causeOf(invalid *pflag.InvalidValueError) string {
	if accepted := acceptedOf[invalid.GetFlag().Value.Type()]; accepted != "" {
		return "must be " + accepted
	}
	cause := invalid.Unwrap().Error()
	if _, reason, repeats := strings.Cut(cause, fmt.Sprintf("%q: ", invalid.GetValue())); repeats {
		return reason
	}
	return cause
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
