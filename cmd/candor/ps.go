package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

func newPsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ps",
		Short:   "List the containers and their CPUs",
		Long:    "List the containers of this machine and what each holds.",
		Example: "  candor ps\n  candor ps -o json",
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := machine.openToLook(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		snapshot, err := h.Snapshot()
		if err != nil {
			return err
		}
		rows := make([]grantRow, len(snapshot.Grants))
		for i := range snapshot.Grants {
			g := &snapshot.Grants[i]
			look, err := h.Look(g.ID)
			if err != nil {
				return err
			}
			rows[i] = newGrantRow(g, look, snapshot.Now)
		}
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), rows)
		}
		return writeRows(cmd.OutOrStdout(), rows)
	}
	return cmd
}

// A grantRow is a container as ps and inspect write it.
type grantRow struct {
	Name      string               `json:"name"`
	State     string               `json:"state"` // pending, running, held, ended (will be reaped), degraded (has lost CPUs)
	Class     hybrid.Class         `json:"class"`
	Policy    hybrid.Policy        `json:"policy"`
	Topology  hybrid.Wish          `json:"topology"`
	CPU       string               `json:"cpu"` // the limit; "0" for none
	Request   string               `json:"request,omitempty"`
	CPUs      cpuset.Set           `json:"cpus"`
	Exclusive cpuset.Set           `json:"exclusive"`
	Fractions map[int]hybrid.Milli `json:"fractions,omitempty"`
	Quota     hybrid.Milli         `json:"quota,omitempty"`
	Weight    hybrid.Milli         `json:"weight"`
	Lost      cpuset.Set           `json:"lost"`
	View      host.View            `json:"view"`
	OnResize  string               `json:"onResize"`
	PID       int                  `json:"pid,omitempty"`
	Processes int                  `json:"processes"`
	Age       float64              `json:"ageSeconds"`
	Command   string               `json:"command"`
	fractions []hybrid.Fraction
}

func newGrantRow(g *host.Grant, look *host.Look, now time.Duration) grantRow {
	row := grantRow{
		Name: g.ID, State: string(g.State), Class: g.Class, Policy: g.Policy, Topology: g.Wish,
		CPU: g.Limit.String(), CPUs: g.CPUs, Exclusive: g.Exclusive, Quota: g.Quota, Weight: g.Weight,
		Lost: g.Lost, View: g.View, OnResize: g.OnResize, PID: g.Main.PID,
		Processes: len(look.Processes), Age: (now - g.Since).Seconds(), Command: g.Command,
		fractions: g.Fractions,
	}
	switch {
	case g.State == host.Running && len(look.Processes) == 0 && !g.Creator.Alive():
		row.State = "ended"
	case !g.Lost.IsEmpty():
		row.State = "degraded"
	}
	if g.Guarantee > 0 {
		row.Request = g.Guarantee.String()
	}
	for _, f := range g.Fractions {
		if row.Fractions == nil {
			row.Fractions = map[int]hybrid.Milli{}
		}
		row.Fractions[f.CPU] = f.Milli
	}
	return row
}

func writeRows(w io.Writer, rows []grantRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tCLASS\tCPU\tCPUS\tSTATE\tPROCS\tAGE\tCOMMAND")
	for _, r := range rows {
		limit := r.CPU
		if limit == "0" {
			limit = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s%s\t%s\t%d\t%s\t%s\n", r.Name, r.Class, limit, r.CPUs, parts(r.fractions),
			r.State, r.Processes, age(time.Duration(r.Age*float64(time.Second))), errorText(shorten(r.Command, 50)))
	}
	return t.Flush()
}

// errorText is text from outside, without control characters.
func errorText(s string) string { return errorLine(fmt.Errorf("%s", s)) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
