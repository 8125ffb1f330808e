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

// textOptions returns the abilities of an output: colors, UTF-8 and width.
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

// localeIsUTF8 is false only if the locale has another encoding. Without a locale, as in many containers, terminals still
// show UTF-8.
func localeIsUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}
