package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

const psLong = `List the containers of this machine with their classes, limits and CPUs. SEES is the
number of CPUs that a container sees. 1/2 means that its affinity has 1 CPU, and
/proc/cpuinfo and /sys/devices/system/cpu/online show 2.

Root and the owner of a container's first process see the command line of this process.
Other users see only the name of its program.`

func newPsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ps",
		Short:   "List containers and their CPUs",
		Long:    psLong,
		Example: "  candor ps\n  candor ps -o json",
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, snapshot, err := machine.snapshot(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		rows, seen := make([]grantRow, len(snapshot.Grants)), observeAll(h, snapshot.Grants)
		for i := range snapshot.Grants {
			g := &snapshot.Grants[i]
			rows[i] = newGrantRow(g, h.InspectContainer(g), snapshot.Now)
			rows[i].read(h, g)
			rows[i].see(&seen[i])
		}
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), rows)
		}
		if err := writeRows(cmd.OutOrStdout(), rows); err != nil {
			return err
		}
		writeSeenNotes(cmd.ErrOrStderr(), rows)
		return nil
	}
	return cmd
}

func writeRows(w io.Writer, rows []grantRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tCLASS\tLIMIT\tSEES\tCPUS\tSTATE\tPROCS\tAGE\tCOMMAND")
	for i := range rows {
		r := &rows[i]
		limit := "-"
		if r.Limit != 0 {
			limit = r.Limit.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s%s\t%s\t%d\t%s\t%s\n", r.name(), r.Class, limit, r.Summary, noneIfEmpty(r.CPUs), parts(r.Fractions),
			r.State, len(r.PIDs), r.age(), r.command())
	}
	return t.Flush()
}
