package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the Makefile; go install sets the module's version.
var version = ""

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  candor version\n  candor --version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// addVersionFlag adds --version to the root. Its -v is the subcommands' --verbose.
func addVersionFlag(root *cobra.Command) {
	root.Version = versionString()
	root.SetVersionTemplate(versionLine())
	root.Flags().Bool("version", false, "print the version")
}

func versionLine() string {
	return fmt.Sprintf("candor %s (%s %s/%s)\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionString returns the release, or the revision from the build information.
func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
