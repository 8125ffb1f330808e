// Command candor gives containers the CPUs that they see. A file holds one
// subcommand: flags, one call, rendering; the work is done by the packages.
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

// run executes one command line and returns the process's exit code.
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

// errorLine returns the one line that a user is told, without line breaks and
// other control characters: parts of it may come from hostile input.
func errorLine(err error) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, err.Error())
}
