//go:build generate

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func init() { buildCommands = append(buildCommands, newGenerateCommand) }

// newGenerateCommand returns the command "candor generate DIR", which "make share" calls. The command writes the man pages and
// the shell completions of all commands below DIR, which has the layout of /usr/share. SOURCE_DATE_EPOCH is the date of the man
// pages.
func newGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "generate DIR",
		Short:  "Write the man pages and shell completions",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return generate(args[0]) },
	}
}

// generate writes man pages and completions of a new command tree below a directory.
func generate(dir string) error {
	defer clearEnvironment()()
	for _, sub := range []string{"man/man1", "bash-completion/completions", "zsh/site-functions", "fish/vendor_completions.d"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	root, _ := newRoot()
	err := root.GenBashCompletionFileV2(filepath.Join(dir, "bash-completion/completions/candor"), true)
	if err == nil {
		err = root.GenZshCompletionFile(filepath.Join(dir, "zsh/site-functions/_candor"))
	}
	if err == nil {
		err = root.GenFishCompletionFile(filepath.Join(dir, "fish/vendor_completions.d/candor.fish"), true)
	}
	if err != nil {
		return err
	}
	prepareMan(root)
	return doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{
		Header:           &doc.GenManHeader{Section: "1", Source: "candor " + versionString(), Manual: "Candor"},
		Path:             filepath.Join(dir, "man/man1"),
		CommandSeparator: "-",
	})
}

// clearEnvironment unsets all environment variables except SOURCE_DATE_EPOCH until restore is called. The man pages show the
// defaults of flags, and these defaults can come from variables such as $KUBECONFIG.
func clearEnvironment() (restore func()) {
	variables := os.Environ()
	os.Clearenv()
	set := func(all []string) {
		for _, variable := range all {
			name, value, _ := strings.Cut(variable, "=")
			os.Setenv(name, value) //nolint:errcheck // a variable of the environment is valid
		}
	}
	isEpoch := func(variable string) bool { return strings.HasPrefix(variable, "SOURCE_DATE_EPOCH=") }
	set(slices.DeleteFunc(slices.Clone(variables), func(variable string) bool { return !isEpoch(variable) }))
	return func() { set(variables) }
}

// prepareMan converts the help texts of a command and its subcommands to Markdown, which package doc expects.
func prepareMan(c *cobra.Command) {
	c.DisableAutoGenTag = true
	c.Long = markdown(c.Long)
	for _, sub := range c.Commands() {
		prepareMan(sub)
	}
}

// special matches the characters that Markdown interprets.
var special = regexp.MustCompile("[\\\\`*_<>#&]")

// markdown converts a help text to Markdown. Indented lines become a code block, which preserves the line breaks. In other lines,
// characters with a meaning in Markdown are escaped.
func markdown(help string) string {
	var out strings.Builder
	inBlock := false
	for line := range strings.Lines(help) {
		isIndented := line[0] == ' ' || line[0] == '\t' || inBlock && strings.TrimSpace(line) == ""
		switch {
		case isIndented && !inBlock:
			out.WriteString("\n```\n")
		case !isIndented && inBlock:
			out.WriteString("```\n\n")
		}
		inBlock = isIndented
		if !isIndented {
			line = special.ReplaceAllString(line, `\$0`)
		}
		out.WriteString(line)
	}
	if inBlock {
		out.WriteString("\n```\n")
	}
	return out.String()
}
