package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Candor lets a container see as many CPUs as its limit, rounded up: a program with a limit
of 3.5 CPUs sees 4 CPUs and gets the time of 3.5 CPUs. On 3 of these CPUs, no other
container runs.

Start with candor audit, which lists the containers of this machine whose CPU count
differs from their limit. It changes nothing.`

const rootExample = `  # List containers that see more CPUs than they have; this changes nothing
  candor audit

  # Run a program that sees 2 CPUs and gets the time of 1.5 CPUs
  candor run --cpu 1.5 -- nproc

  # Dry-run an allocation on another machine
  echo '{"op":"allocate","id":"web","cpu":"3500m","class":"sensitive"}' |
    candor plan --machine "pack:2 numa:1 l3:1 core:4 pu:2"

  # Show the CPU map of this machine
  candor map`

// Groups of subcommands.
const (
	groupRun     = "run"
	groupInspect = "inspect"
	groupMeasure = "measure"
	groupMany    = "many"
	groupHost    = "host"
)

// buildCommands create the commands that exist only during the build, such as candor generate. A released
// candor has none of these commands.
var buildCommands []func() *cobra.Command

// newRoot returns the command tree, and a flag that becomes true when the work of a subcommand starts. An error before that is
// bad input.
func newRoot() (root *cobra.Command, started *bool) {
	root = &cobra.Command{
		Use:           "candor COMMAND",
		Short:         "Let containers see as many CPUs as their limit",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true, // errors are a single line
		SilenceErrors: true, // main prints them
		Args:          cobra.ArbitraryArgs,
		RunE:          runRoot,
	}
	root.AddGroup(
		&cobra.Group{ID: groupInspect, Title: "Inspect and plan:"},
		&cobra.Group{ID: groupRun, Title: "Run programs:"},
		&cobra.Group{ID: groupMeasure, Title: "Measure programs:"},
		&cobra.Group{ID: groupMany, Title: "Simulate clusters:"},
		&cobra.Group{ID: groupHost, Title: "Configure machines:"},
	)
	add(root, groupRun, newRunCommand(), newPsCommand(), newTopCommand())
	add(root, groupRun, takesName(newResizeCommand(), newInspectCommand(), newReleaseCommand())...)
	add(root, groupInspect, newAuditCommand(), newLedgerCommand(), newMapCommand(), newPlanCommand(), newTopologyCommand(), newViewCommand())
	add(root, groupMeasure, newCompareCommand(), newClassifyCommand(), newIsolateCommand(), newReportCommand(), newRecordCommand(), newUsageCommand(), newAdviseCommand(), newLoadCommand())
	add(root, groupMany, newTraceCommand(), newSimulateCommand(), newPlaceCommand())
	add(root, groupHost, newDoctorCommand(), newSupportCommand(), newSetupCommand(), newNRICommand(), newConfigCommand(), newUninstallCommand())
	for _, newCommand := range buildCommands {
		add(root, "", newCommand())
	}
	add(root, "", newVersionCommand(), newInternalExecCommand(), newInternalGuardCommand(), newInternalProbeCommand(), newInternalAppCommand(), newOCIHookCommand(), newInternalRemovalCommand())
	addSynonyms(root)
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpCommand(newHelpCommand())
	addVersionFlag(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	started = new(bool)
	markStart(root, started)
	return root, started
}

// add registers subcommands under a group of the help text.
func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// synonyms are the names that other tools have for the work of a command. An alias runs the command. A similar name is only
// suggested, because other tools use it with different meanings.
var synonyms = map[string]struct{ aliases, similar []string }{
	"ps":       {[]string{"ls"}, []string{"list", "containers", "get", "status"}},
	"inspect":  {[]string{"describe"}, []string{"show", "info"}},
	"top":      {[]string{"stats"}, []string{"htop", "monitor"}},
	"release":  {[]string{"rm", "stop", "kill"}, []string{"remove", "delete", "free"}},
	"run":      {nil, []string{"create", "exec", "start"}},
	"resize":   {nil, []string{"limit", "scale", "set", "update"}},
	"audit":    {nil, []string{"scan"}},
	"doctor":   {nil, []string{"check", "diagnose", "preflight"}},
	"map":      {nil, []string{"cpus", "draw"}},
	"topology": {nil, []string{"lscpu", "lstopo", "numactl"}},
	"view":     {nil, []string{"nproc"}},
	"compare":  {nil, []string{"bench", "benchmark"}},
	"support":  {nil, []string{"sysdump", "report-bug", "sosreport"}},
	"setup":    {nil, []string{"configure", "init", "install"}},
	"nri":      {nil, []string{"agent", "daemon", "plugin"}},

	"uninstall": {nil, []string{"deinstall", "purge", "teardown"}},
}

// addSynonyms adds the synonyms to the subcommands of the root.
func addSynonyms(root *cobra.Command) {
	for _, c := range root.Commands() {
		words := synonyms[c.Name()]
		c.Aliases, c.SuggestFor = words.aliases, words.similar
	}
}

// runRoot handles candor without a subcommand, or with an unknown subcommand.
func runRoot(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand returns the error for an unknown subcommand. It suggests the subcommand with this synonym, or the most similar
// subcommand.
func unknownCommand(cmd *cobra.Command, name string) error {
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, name) {
			return badInput("unknown command %q: did you mean %q?", name, c.Name())
		}
	}
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	if near := nearestCommand(cmd, name); near != "" {
		return badInput("unknown command %q: did you mean %q?", name, near)
	}
	return badInput("unknown command %q; %s --help lists the commands", name, cmd.CommandPath())
}

// nearestCommand returns the subcommand whose name, or alias, is the most similar to a mistyped name, or "" if none is similar. A
// name of up to four characters can have one typing error, because with two errors it has little in common with the command. A
// longer name can have two.
func nearestCommand(cmd *cobra.Command, name string) (nearest string) {
	best := 3
	if len(name) <= 4 {
		best = 2
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		for _, word := range append([]string{c.Name()}, c.Aliases...) {
			n := typingErrors(name, word)
			if len(name) >= 3 && strings.HasPrefix(word, name) {
				n = 1
			}
			if n < best {
				best, nearest = n, c.Name()
			}
		}
	}
	return nearest
}

// typingErrors returns the number of typing errors between two words (the optimal string alignment distance): missing, additional
// and wrong bytes, and exchanged neighbors.
func typingErrors(a, b string) int {
	distances := make([][]int, len(a)+1) // [i][j]: of the first i bytes of a and the first j bytes of b
	for i := range distances {
		distances[i] = make([]int, len(b)+1)
		distances[i][0] = i
	}
	for j := range distances[0] {
		distances[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			d := min(distances[i-1][j]+1, distances[i][j-1]+1, distances[i-1][j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, distances[i-2][j-2]+1)
			}
			distances[i][j] = d
		}
	}
	return distances[len(a)][len(b)]
}

// markStart wraps the work of every command so that *started shows whether the work has started. Commands
// that only group subcommands refuse unknown names.
func markStart(c *cobra.Command, started *bool) {
	if c.HasSubCommands() && !c.Runnable() {
		c.Args, c.RunE = cobra.ArbitraryArgs, runRoot
	}
	if work := c.RunE; work != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return work(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		markStart(sub, started)
	}
}

// usageTemplate is cobra's template with a single usage line and without empty groups.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- if .Aliases}}

Aliases:
  {{.NameAndAliases}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableSubCommands}}{{$commands := .Commands}}
{{- range $group := .Groups}}

{{.Title}}{{range $commands}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}

{{if .Groups}}Other commands:{{else}}Commands:{{end}}
{{- range $commands}}{{if and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableSubCommands}}

Use {{.CommandPath}} COMMAND --help for the details of a command.{{end}}
`

// checkHelp makes the commands store the error of writing a help text in *failed. cobra ignores this error.
func checkHelp(root *cobra.Command) (failed *error) {
	failed = new(error)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var text bytes.Buffer
		out := c.OutOrStdout()
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, *failed = out.Write(text.Bytes())
	})
	return failed
}

// newHelpCommand returns the command "candor help [COMMAND]".
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Show the help of a command",
		Example:           "  candor help run",
		ValidArgsFunction: completeCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return badInput("%v", err)
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// completeCommands completes the names of subcommands.
func completeCommands(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	about, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range about.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name()+"\t"+c.Short)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// noArgs refuses arguments of a command that takes flags only.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badInput("argument %.60q: the command takes no arguments", args[0])
	}
	return nil
}

// atMostOne returns a check that accepts no argument, or a single argument with a name such as FILE.
func atMostOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return badInput("%d arguments: must be at most 1, the %s", len(args), name)
		}
		return nil
	}
}
