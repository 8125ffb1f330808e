package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
)

const resizeLong = `Give a running container a new limit.

Its CPUs, its quota and the files that it is shown change while it runs. Then it
is told, in the way that it was started with (candor run --on-resize). What it has
read before it cannot unread: variables of its environment keep the old number.
If the new limit cannot be had, nothing changes.`

func newResizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resize NAME --cpu N",
		Short:   "Give a running container a new limit",
		Long:    resizeLong,
		Example: "  candor resize web --cpu 3.5",
		Args:    oneName,
	}
	machine := addHostFlags(cmd)
	var size, guarantee hybrid.Milli
	cmd.Flags().Var((*milliFlag)(&size), "cpu", "new limit, such as 2, 1.5 or 1500m; 0: none (flexible containers)")
	cmd.Flags().Var((*milliFlag)(&guarantee), "request", "new guarantee of a flexible container (default: that given apart from the limit, or the limit)")
	if err := cmd.MarkFlagRequired("cpu"); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := machine.open(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		if cmd.Flags().Changed("request") && guarantee == 0 {
			guarantee = hybrid.NoGuarantee
		}
		name, err := idNamed(h, args[0])
		if err != nil {
			return err
		}
		before, after, err := h.Resize(cmd.Context(), name, size, guarantee)
		if err != nil {
			return hostError(err)
		}
		told, err := h.Notify(cmd.Context(), after, cmd.OutOrStdout(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s -> %s; %s\n", args[0], holdings(before), holdings(after), told)
		return err
	}
	return cmd
}

// holdings says in words what a container has: "limit 1500m, CPUs 0,3 (500m of 3)".
func holdings(g *host.Grant) string {
	return fmt.Sprintf("limit %s, %s%s", limit(g.Limit), cputext.CPUs(g.CPUs), parts(g.Fractions))
}

// parts says which CPUs a container has a part of: " (500m of 3)".
func parts(fractions []hybrid.Fraction) string {
	if len(fractions) == 0 {
		return ""
	}
	text := " ("
	for i, f := range fractions {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%v of %d", f.Milli, f.CPU)
	}
	return text + ")"
}
