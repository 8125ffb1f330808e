// Command candor gives containers the CPUs that they see. A file holds a subcommand: its flags, a call of the package that
// does the work, and the output.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
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
	err := root.Execute()
	if err == nil {
		err = *helped
	}
	if err == nil {
		return 0
	}
	if line := errorLine(err); line != "" {
		fmt.Fprintln(errOut, "candor:", line)
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
