package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

const auditLong = `List the containers of this machine whose CPU count differs from their limit.
The command finds the containers of Docker, containerd, CRI-O, Podman and Candor.
The container with the most lost time comes first.

Start here: the command needs no installation, reads no state, asks no engine and
changes nothing.

SEES       CPUs in the widest affinity of the container's processes
LIMIT      smallest CPU quota of the cgroup and the cgroups above it
THREADS    threads of all processes
THROTTLED  share of the periods in which the quota ran out
LOST       CPU time lost to throttling since the cgroup was created
GAIN       whether a CPU count equal to the limit would speed the container up
           likely: it has more threads than CPUs in its limit, and was throttled
           maybe:  it has more threads than CPUs in its limit, but was not throttled
           no:     it does not have more threads than CPUs in its limit

Users other than root see IDs instead of most names.`

const auditExample = `  candor audit
  candor audit --all
  candor audit -o json | jq '.[] | select(.gain == "likely")'`

func newAuditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "List containers whose CPU count differs from their limit",
		Long:    auditLong,
		Example: auditExample,
		Args:    noArgs,
	}
	all := cmd.Flags().Bool("all", false, "list all containers, also without a mismatch or a limit")
	output := outputFlag(cmd, "table", "json")
	options := cgroup.Options{ReadOnly: true}
	driver := addGroupFlags(cmd, &options)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options.Driver = cgroup.Driver(driver.value)
		tree, err := cgroup.Open(options)
		if err != nil {
			return &exitError{exitBadInput, err}
		}
		defer tree.Close()
		found, err := audit.Read(tree)
		if err != nil {
			return err
		}
		rows := auditRows(found, *all)
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), rows)
		}
		return writeAudit(cmd.OutOrStdout(), rows, found)
	}
	return cmd
}

// An auditRow is a container as audit writes it. Its JSON form is an interface:
// docs/audit.md describes it, field by field.
type auditRow struct {
	Name             string       `json:"name"`
	ID               string       `json:"id"`
	Runtime          string       `json:"runtime,omitempty"` // absent where it is not known
	Group            string       `json:"group"`
	CPUs             cpuset.Set   `json:"cpus"`
	Sees             int          `json:"sees"`
	Limit            hybrid.Milli `json:"limit"` // 0: none
	LimitedBy        string       `json:"limitedBy,omitempty"`
	Processes        int          `json:"processes"`
	Threads          int          `json:"threads"`
	Periods          uint64       `json:"periods"`
	ThrottledPeriods uint64       `json:"throttledPeriods"`
	Throttled        float64      `json:"throttled"` // share of the periods
	ThrottledTime    float64      `json:"throttledSeconds"`
	Differs          bool         `json:"differs"`
	Gain             audit.Gain   `json:"gain"`
}

func auditRows(found []audit.Container, all bool) []auditRow {
	rows := []auditRow{}
	for i := range found {
		c := &found[i]
		if !all && !c.Differs() {
			continue
		}
		rows = append(rows, auditRow{
			Name: c.Name, ID: c.ID, Runtime: c.Runtime, Group: c.Group, CPUs: c.CPUs, Sees: c.Sees, Limit: c.Limit, LimitedBy: c.LimitedBy,
			Processes: c.Processes, Threads: c.Threads, Periods: c.Periods, ThrottledPeriods: c.Throttled,
			Throttled: c.Share(), ThrottledTime: c.ThrottledTime.Seconds(), Differs: c.Differs(), Gain: c.Gain(),
		})
	}
	return rows
}

// writeAudit writes the table and the next step.
func writeAudit(w io.Writer, rows []auditRow, found []audit.Container) error {
	if len(rows) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tRUNTIME\tSEES\tLIMIT\tTHREADS\tTHROTTLED\tLOST\tGAIN")
		for i := range rows {
			r := &rows[i]
			limit := "-"
			if r.Limit != 0 {
				limit = r.Limit.String()
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%.0f%%\t%s\t%s\n", errorText(shorten(r.Name, 60)), cmp.Or(r.Runtime, "-"), r.Sees, limit,
				r.Threads, 100*r.Throttled, lost(r.ThrottledTime), r.Gain)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintln(w, auditSummary(found))
	return err
}

// lost formats a lost time.
func lost(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 2*time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return age(d)
}

// auditSummary summarizes the list and names the next step.
func auditSummary(found []audit.Container) string {
	differ, likely := 0, 0
	for i := range found {
		if found[i].Differs() {
			differ++
		}
		if found[i].Gain() == audit.Likely {
			likely++
		}
	}
	switch {
	case len(found) == 0:
		return "No container runs here."
	case differ == 0:
		return fmt.Sprintf("%s here, and the CPU count of each equals its limit.", count(len(found), "container runs", "containers run"))
	}
	next := "candor nri --observe (Kubernetes) plans the CPUs of each; docker run --runtime candor applies them to a container"
	return fmt.Sprintf("%d of %s a CPU count that differs from the limit, %d would likely gain. Next: %s.",
		differ, count(len(found), "container sees", "containers see"), likely, next)
}
