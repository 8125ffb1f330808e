package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
)

// colourFlag adds --color.
func colourFlag(cmd *cobra.Command) *choice {
	c := &choice{"auto", []string{"auto", "always", "never"}}
	wordFlag(cmd, c, c.of, "color", "", "colors: auto uses them on a terminal without NO_COLOR")
	return c
}

// textOptions says what the place can show that out goes to.
func textOptions(out io.Writer, colour string) cpumap.TextOptions {
	o := cpumap.TextOptions{Colour: colour == "always", ASCII: !localeIsUTF8()}
	f, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return o
	}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
		o.Columns = columns
	}
	if colour == "auto" {
		o.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return o
}

// localeIsUTF8 is false only where the locale says so: without one, as in many
// containers, terminals show UTF-8 all the same.
func localeIsUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}
