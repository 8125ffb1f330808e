package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
)

const resizeLong = `Change the CPU limit of a running container.

The CPUs, the quota and the view of the container change while it runs. Then candor
notifies the program with the method from --on-resize of candor run. Values that the
program has already read do not change: environment variables keep the old CPU count.
If the new limit does not fit, nothing changes.`

func newResizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resize NAME --cpu N",
		Short:   "Change the CPU limit of a running container",
		Long:    resizeLong,
		Example: "  candor resize web --cpu 3.5",
		Args:    oneName,
	}
	machine := addHostFlags(cmd)
	var size, guarantee hybrid.Milli
	cmd.Flags().Var((*milliFlag)(&size), "cpu", "new limit, such as 2, 1.5 or 1500m; 0: no limit (flexible only)")
	cmd.Flags().Var((*milliFlag)(&guarantee), "request", "new guarantee of a flexible container (default: old --request, else new limit)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("cpu") {
			return missing("--cpu", "the new limit, such as 2, 1.5 or 1500m")
		}
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
		return writeResize(cmd.OutOrStdout(), before, after, told)
	}
	return cmd
}

// writeResize writes the grants before and after a resize. The name is the container's display name, also if the user has typed
// its ID or a part of the name.
func writeResize(w io.Writer, before, after *host.Grant, notification string) error {
	_, err := fmt.Fprintf(w, "%s: %s -> %s; %s\n", errorText(after.DisplayName()), holdings(before), holdings(after), notification)
	return err
}

// holdings describes the CPUs of a container: "limit 1500m, CPUs 0,3 (500m of 3)".
func holdings(g *host.Grant) string {
	return fmt.Sprintf("limit %s, %s%s", limit(g.Limit), cputext.CPUs(g.CPUs), parts(g.Fractions))
}

// parts describes the fractions of a container: " (500m of 3)".
func parts(fractions []hybrid.Fraction) string {
	if len(fractions) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(" (")
	for i, f := range fractions {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%v of %d", f.Milli, f.CPU)
	}
	return text.String() + ")"
}
