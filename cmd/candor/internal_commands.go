package main

import (
	"github.com/spf13/cobra"

	"github.com/candor-project/candor/experiment"
)

// newInternalGuardCommand returns the command that removes the cgroups of an experiment if its candor process was killed.
func newInternalGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:                experiment.GuardCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return experiment.RunGuard(args[0], args[1], cmd.InOrStdin())
		},
	}
}
