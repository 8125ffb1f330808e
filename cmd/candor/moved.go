package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// A movedFlag is a flag that another program has instead of candor.
type movedFlag struct{ to string }

func (f movedFlag) String() string { return "" }
func (f movedFlag) Type() string   { return "moved" }
func (f movedFlag) Set(string) error {
	return errors.New("must not be set; use " + f.to + " (docs/kubectl.md)")
}

// addMovedFlags adds flags for clusters, which only kubectl candor has. They are hidden, and their error names the command of
// kubectl candor that has them. names maps the name of a flag to its short name, or to "".
func addMovedFlags(cmd *cobra.Command, to string, names map[string]string) {
	for name, short := range names {
		f := cmd.Flags().VarPF(movedFlag{to}, name, short, "moved to "+to)
		f.Hidden = true
		if name == "cluster" {
			f.NoOptDefVal = "true"
		}
	}
}
