package main

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/internal/texttable"
)

const psLong = `List the containers of this machine with their classes, limits and CPUs. SEES is the
number of CPUs that a container sees. 1/2 means that its affinity has 1 CPU, and
/proc/cpuinfo and /sys/devices/system/cpu/online show 2.

Root and the owner of a container's first process see the command line of this process.
Other users see only the name of its program.

On a narrow terminal, the table is shortened. -o wide prints all columns.`

func newPsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ps",
		Short:   "List containers and their CPUs",
		Long:    psLong,
		Example: "  candor ps\n  candor ps -o json",
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "wide", "json")
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
		if err := writeRows(cmd.OutOrStdout(), tableWidth(cmd.OutOrStdout(), output), rows); err != nil {
			return err
		}
		writeSeenNotes(cmd.ErrOrStderr(), rows)
		return nil
	}
	return cmd
}

// writeRows writes the table. width is the width of the terminal; 0: unlimited (tableWidth).
func writeRows(w io.Writer, width int, rows []grantRow) error {
	t := texttable.Table{
		Titles:    []string{"NAME", "CLASS", "LIMIT", "SEES", "CPUS", "STATE", "PROCS", "AGE", "COMMAND"},
		Ranks:     []int{0, 1, 0, 0, 0, 0, 4, 3, 2},
		LastWidth: 15,
	}
	for i := range rows {
		r := &rows[i]
		t.Rows = append(t.Rows, []string{r.name(), r.Class.String(), limitCell(r.Limit), r.Summary.String(), noneIfEmpty(r.CPUs) + parts(r.Fractions),
			r.State, strconv.Itoa(len(r.PIDs)), r.age(), r.command()})
	}
	return t.Write(w, width)
}
