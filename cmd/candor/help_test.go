package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unclear matches words that hide a noun or the actor.
var unclear = regexp.MustCompile(`(?i)\b(what|who|whoever|somebody|nobody|told|said|says|wish|wishes|one of them)\b`)

// TestHelpStyle checks the help of all commands. Short help starts with an upper-case letter and has no period,
// flag help has at most 80 characters, and no text has an unclear word.
func TestHelpStyle(t *testing.T) {
	root, _ := newRoot()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "completion" {
			return
		}
		if first := []rune(c.Short)[0]; !unicode.IsUpper(first) || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.CommandPath(), c.Short)
		}
		for _, text := range []string{c.Short, c.Long, c.Example} {
			if word := unclear.FindString(text); word != "" {
				t.Errorf("%s: the help has %q", c.CommandPath(), word)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			usage, _, _ = strings.Cut(usage, " [") // the accepted words
			if len(usage) > 80 {
				t.Errorf("%s --%s: %d characters: %s", c.CommandPath(), f.Name, len(usage), usage)
			}
			if word := unclear.FindString(usage); word != "" {
				t.Errorf("%s --%s: the help has %q", c.CommandPath(), f.Name, word)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
