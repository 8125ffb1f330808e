package command

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
)

// A choice is the value of a flag that accepts some words.
type choice struct {
	value string
	words []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }

// Set accepts one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
	}
	c.value = text
	return nil
}

// choiceFlag adds a flag that accepts some words; the first is the default.
func choiceFlag(cmd *cobra.Command, name, short, usage string, words ...string) *choice {
	c := &choice{words[0], words}
	cmd.Flags().VarP(c, name, short, usage+" ["+strings.Join(words, "|")+"]")
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails only if the flag does not exist
	return c
}

// outputFlag adds -o; the first format is the default.
func outputFlag(cmd *cobra.Command, forms ...string) *choice {
	return choiceFlag(cmd, "output", "o", "output format", forms...)
}

// textOptions returns the abilities of the terminal: colors, UTF-8 and width. Without a terminal, the width is unlimited.
func textOptions(color string) cpumap.TextOptions {
	o := cpumap.TextOptions{Color: color == "always", ASCII: !localeIsUTF8()}
	out := int(os.Stdout.Fd())
	if !term.IsTerminal(out) {
		return o
	}
	if columns, _, err := term.GetSize(out); err == nil {
		o.Columns = columns
	}
	if color == "auto" {
		o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return o
}

// tableWidth returns the maximum width of a table: the width of the terminal, or 0 (unlimited) with -o wide and without a
// terminal.
func tableWidth(output *choice) int {
	if output.value == "wide" {
		return 0
	}
	return textOptions("never").Columns
}

// localeIsUTF8 reports whether the terminal shows UTF-8. It is false only if the locale has another encoding.
func localeIsUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// writeLines writes a list with its heading and length, unless it is empty.
func writeLines(out io.Writer, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s (%d):\n", heading, len(lines))
	for _, line := range lines {
		fmt.Fprintln(out, "-", cpumap.Clean(line))
	}
}

// count formats a number with its unit: "1 node", "2 nodes".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// amount formats an amount of CPU: "1 CPU", "2 CPUs", "1500m".
func amount(m hybrid.Milli) string {
	if m%1000 == 0 {
		return count(int(m/1000), "CPU")
	}
	return m.String()
}

// limit formats a limit; 0 means none.
func limit(m hybrid.Milli) string {
	if m == 0 {
		return "none"
	}
	return amount(m)
}

// isObjectName reports whether a name is valid in the path of an API request.
func isObjectName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && name[0] != '.'
}
