package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeNames completes the names of this machine's containers. Where they
// cannot be read the shell gets none: a completion has no place for errors.
func completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	look := &cobra.Command{}
	machine := addHostFlags(look)
	cmd.Flags().Visit(func(set *pflag.Flag) { // look where the command would
		if f := look.Flags().Lookup(set.Name); f != nil {
			_ = f.Value.Set(set.Value.String())
		}
	})
	h, err := machine.openToLook(look)
	if err != nil {
		return nil, none
	}
	defer h.Close()
	snapshot, err := h.Snapshot()
	if err != nil {
		return nil, none
	}
	var names []string
	for i := range snapshot.Grants {
		g := &snapshot.Grants[i]
		names = append(names, fmt.Sprintf("%s\t%s, limit %s", g.ID, g.Class, limit(g.Limit)))
	}
	return names, none
}

// takesName lets the shell complete the name that commands take.
func takesName(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.ValidArgsFunction = completeNames
	}
	return commands
}
