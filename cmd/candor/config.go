package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/engine/nri"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check configuration files",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Validate a configuration file of candor nri",
		Long: `Validate a configuration file as candor nri does when it reads the file. For an invalid
file, the command prints an error with the file and the line number, and exits with 2.`,
		Example: "  candor config check /etc/candor/nri.yaml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := nri.LoadConfig(args[0]); err != nil {
				return nriError(err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: good\n", args[0])
			return err
		},
	})
	return cmd
}

// oneFile accepts exactly one argument, the name of a file.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return badInput("%d arguments: must be 1, the FILE", len(args))
	}
	return nil
}
