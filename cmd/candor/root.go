package main

import (
	"github.com/spf13/cobra"
)

const rootLong = `Candor gives containers the CPUs that they see: a program with a limit of 3.5 CPUs
sees 4 CPUs, gets the time of 3.5 CPUs, and shares its whole CPUs with no other
container.

Start with candor audit: it lists the containers of this machine whose CPU count
differs from their limit, and changes nothing.`

const rootExample = `  # List containers that see more CPUs than they have; this changes nothing
  candor audit

  # Run a program that sees two CPUs and gets the time of one and a half
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

// newRoot returns the command tree, and a flag that becomes true when the work of a subcommand starts: an earlier error is
// bad input.
func newRoot() (root *cobra.Command, started *bool) {
	root = &cobra.Command{
		Use:           "candor COMMAND",
		Short:         "Give containers the CPUs that they see",
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
	add(root, groupInspect, newAuditCommand(), newMapCommand(), newPlanCommand(), newTopologyCommand(), newViewCommand())
	add(root, groupMeasure, newCompareCommand(), newClassifyCommand(), newIsolateCommand(), newReportCommand(), newRecordCommand(), newUsageCommand(), newAdviseCommand(), newLoadCommand())
	add(root, groupMany, newTraceCommand(), newSimulateCommand(), newPlaceCommand())
	add(root, groupHost, newSetupCommand(), newNRICommand(), newConfigCommand())
	add(root, "", newVersionCommand(), newInternalExecCommand(), newInternalGuardCommand(), newInternalProbeCommand(), newInternalAppCommand(), newOCIHookCommand())
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

// runRoot handles candor without a subcommand, or with an unknown subcommand.
func runRoot(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand returns the error for an unknown subcommand, with the most similar existing subcommand.
func unknownCommand(cmd *cobra.Command, name string) error {
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return badInput("unknown command %q: did you mean %q?", name, near[0])
	}
	return badInput("unknown command %q: %s --help lists them", name, cmd.CommandPath())
}

// markStart wraps the work of every command so that *started shows whether it has started. Commands that only group
// subcommands refuse unknown names.
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
