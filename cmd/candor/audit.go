package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/auditreport"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/view"
)

const auditLong = `List the containers of this machine whose CPU count differs from their limit.
The command finds the containers of Docker, containerd, CRI-O, Podman and Candor.
The container with the most lost time comes first.

Start here: the command needs no installation, asks no engine and changes nothing.

SEES       CPUs that the container sees; 1/2 if the affinity has 1 CPU, and
           /proc/cpuinfo and /sys/devices/system/cpu/online show 2
LIMIT      smallest CPU quota of the container's cgroup and its ancestors
THREADS    threads of all processes
THROTTLED  share of the periods in which the quota ran out
LOST       CPU time lost to throttling since the cgroup was created
GAIN       whether a CPU count equal to the limit would speed the container up
           likely: it has more threads than CPUs in its limit, and was throttled
           maybe:  it has more threads than CPUs in its limit, but was not throttled
           no:     it does not have more threads than CPUs in its limit

A helper is an engine process that copies the output of a container to a log. Helpers
run outside of the container, so the container's limit does not apply to them. A second
table lists the containers whose helpers use more than 5 % of the container's limit. The
command measures helpers for the time of --helpers.

For users other than root, the command prints IDs instead of most names, and measures no
helpers.`

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
	all := cmd.Flags().Bool("all", false, "also list containers without a mismatch or without a limit")
	output := outputFlag(cmd, "table", "wide", "json")
	during := cmd.Flags().Duration("helpers", time.Second, "time to measure helpers, up to 1h; 0 disables the measurement")
	options := cgroup.Options{ReadOnly: true}
	driver := addGroupFlags(cmd, &options)
	defaults, _ := defaultHostOptions()
	stateDir := cmd.Flags().String("state-dir", defaults.StateDir, "state directory with the views of Candor ($CANDOR_STATE_DIR)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *during < 0 || *during > time.Hour {
			return badInput("--helpers %v: must be 0 to 1h", *during)
		}
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
		store := state.NewStore(*stateDir)
		audit.Observe(found, store.ViewsDir())
		figures, err := measureHelpers(cmd, found, *during)
		if err != nil {
			return err
		}
		rows := auditRows(found, *all, figures)
		if addSeenNotes(rows, store) { // an operation in progress can be the cause of a note
			time.Sleep(settling)
			again, err := audit.Read(tree)
			if err != nil {
				return err
			}
			audit.Observe(again, store.ViewsDir())
			replaceNoted(rows, again)
			rows = auditRows(found, *all, figures)
			addSeenNotes(rows, store)
		}
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), rows)
		}
		out, width := cmd.OutOrStdout(), tableWidth(cmd.OutOrStdout(), output)
		if err := writeAudit(out, width, rows, found); err != nil {
			return err
		}
		return writeBusyHelpers(out, width, busyHelpers(found, figures), figures.Problems())
	}
	return cmd
}

// An auditRow is a row with the container that it describes.
type auditRow struct {
	auditreport.Row
	found *audit.Container
}

// auditRows returns the containers to list: all containers if all is true, otherwise the containers whose CPU count differs from
// the limit or whose helpers are busy.
func auditRows(found []audit.Container, all bool, figures *helpers.Figures) []auditRow {
	rows := []auditRow{}
	for i := range found {
		c := &found[i]
		used, isMeasured := figures.Charged(c.ID)
		if !all && !c.Differs() && !isBusy(c, used) {
			continue
		}
		row := auditRow{auditreport.Row{
			Name: c.Name, Parts: podname.PartsOf(c.Name, c.ID), ID: c.ID, Runtime: c.Runtime, Group: c.Group, CPUs: c.CPUs, Sees: c.Sees, SeesFiles: c.SeesFiles, Limit: c.Limit, LimitedBy: c.LimitedBy,
			Processes: c.Processes, Threads: c.Threads, Periods: c.Periods, ThrottledPeriods: c.Throttled,
			Throttled: c.Share(), ThrottledTime: c.ThrottledTime.Seconds(), Differs: c.Differs(), Gain: c.Gain(),
		}, c}
		if isMeasured {
			row.Helpers = new(hybrid.Milli(used*1000 + 0.5))
		}
		rows = append(rows, row)
	}
	return rows
}

// addSeenNotes compares the CPUs that the containers of Candor see with the settings of their grants, and reports whether a
// container has a note. It adds no notes if the state cannot be read, or is a plan, which changes no container.
func addSeenNotes(rows []auditRow, store state.Store) (hasNote bool) {
	saved, err := store.Load()
	if err != nil || store.IsPlan() {
		return false
	}
	ofGroup, ofID := map[string]*host.Grant{}, map[string]*host.Grant{}
	for _, g := range saved.Grants {
		if g.Engine.Cgroup != "" {
			ofGroup[g.Engine.Cgroup] = g
		} else {
			ofID[g.ID] = g
		}
	}
	for i := range rows {
		r := &rows[i]
		g := ofGroup[r.Group]
		if g == nil && r.Runtime == "candor" {
			g = ofID[r.ID]
		}
		if g != nil && g.State == host.Running {
			seen := host.CompareView(g, r.found.Observed, r.CPUs)
			r.SeesNote = seen.Note
		}
		hasNote = hasNote || r.SeesNote != ""
	}
	return hasNote
}

// replaceNoted replaces the containers of the rows with a note by the containers that were read again. A container that has ended
// meanwhile sees no CPUs.
func replaceNoted(rows []auditRow, again []audit.Container) {
	for i := range rows {
		r := &rows[i]
		if r.SeesNote == "" {
			continue
		}
		r.found.Observed = view.Observation{}
		for j := range again {
			if c := &again[j]; c.Group == r.found.Group && c.ID == r.found.ID {
				*r.found = *c
			}
		}
	}
}

// writeAudit writes the table, and a summary that suggests the next command to the user.
func writeAudit(w io.Writer, width int, rows []auditRow, found []audit.Container) error {
	if len(rows) > 0 {
		t := texttable.Table{
			Titles: []string{"NAME", "RUNTIME", "SEES", "LIMIT", "THREADS", "THROTTLED", "LOST", "GAIN"},
			Ranks:  []int{0, 3, 0, 0, 4, 1, 2, 0},
		}
		for i := range rows {
			r := &rows[i]
			t.Rows = append(t.Rows, []string{errorText(shorten(r.Name, 60)), cmp.Or(r.Runtime, "-"), r.SeenCPUs().String(), limitCell(r.Limit),
				strconv.Itoa(r.Threads), fmt.Sprintf("%.0f%%", 100*r.Throttled), lost(r.ThrottledTime), string(r.Gain)})
		}
		if err := t.Write(w, width); err != nil {
			return err
		}
		fmt.Fprintln(w)
		writeSeenLegend(w, rows)
	}
	_, err := fmt.Fprintln(w, auditSummary(found))
	return err
}

// maxSeenNotes bounds the notes below the table.
const maxSeenNotes = 10

// writeSeenLegend explains a cell such as 1/2 in the column SEES, and writes the notes on containers of Candor that see other
// CPUs than their settings say.
func writeSeenLegend(w io.Writer, rows []auditRow) {
	var lines []string
	for i := range rows {
		if s := rows[i].SeenCPUs(); s.Affinity != s.Files && s.Files != 0 {
			lines = append(lines, fmt.Sprintf("SEES %s: %d by the affinity (nproc), %d in /proc/cpuinfo and /sys.", s, s.Affinity, s.Files))
			break
		}
	}
	notes := 0
	for i := range rows {
		r := &rows[i]
		if r.SeesNote == "" {
			continue
		}
		if notes++; notes <= maxSeenNotes {
			lines = append(lines, errorText(fmt.Sprintf("%s sees %s: %s.", r.Name, r.SeenCPUs(), r.SeesNote)))
		}
	}
	if more := notes - maxSeenNotes; more > 0 {
		lines = append(lines, count(more, "more container has a note", "more containers have a note")+": candor inspect shows it.")
	}
	if len(lines) > 0 {
		fmt.Fprintln(w, strings.Join(lines, "\n")+"\n")
	}
}

// lost formats a throttled time.
func lost(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 2*time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return age(d)
}

// auditSummary summarizes the list and suggests the next command.
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

// minBusyShare is the CPU use above which helpers are reported, as a share of the container's limit. Without a limit, it is a share of a
// CPU.
const minBusyShare = 0.05

// measureHelpers measures the helpers of the containers. It returns nil if there are no containers or helpers
// are not measured.
func measureHelpers(cmd *cobra.Command, found []audit.Container, during time.Duration) (*helpers.Figures, error) {
	if during == 0 || len(found) == 0 {
		return nil, nil // there is nothing to measure
	}
	return helpers.Measure(cmd.Context(), during)
}

// isBusy reports whether helpers use more than minBusyShare of the container's limit. used is their use in CPUs.
func isBusy(c *audit.Container, used float64) bool { return helperShare(c, used) > minBusyShare }

// helperShare returns the CPU use of helpers as a share of the container's limit or, if the container has no
// limit, of a CPU.
func helperShare(c *audit.Container, used float64) float64 {
	if c.Limit == 0 {
		return used
	}
	return used * 1000 / float64(c.Limit)
}

// A busyHelper is a container whose helpers use more than minBusyShare of its limit.
type busyHelper struct {
	*audit.Container
	used  float64 // CPUs that helpers use
	kinds string
}

// busyHelpers returns the containers with busy helpers, the largest share of the limit first.
func busyHelpers(found []audit.Container, figures *helpers.Figures) []busyHelper {
	var list []busyHelper
	for i := range found {
		c := &found[i]
		used, _ := figures.Charged(c.ID)
		if !isBusy(c, used) {
			continue
		}
		var kinds []string
		for _, u := range figures.Containers[figures.Find(c.ID)] {
			if u.Kind.IsCharged() && u.CPUs >= 0.0005 {
				kinds = append(kinds, fmt.Sprintf("%s %.3f", u.Kind, u.CPUs))
			}
		}
		list = append(list, busyHelper{c, used, strings.Join(kinds, ", ")})
	}
	slices.SortStableFunc(list, func(a, b busyHelper) int {
		return cmp.Compare(helperShare(b.Container, b.used), helperShare(a.Container, a.used))
	})
	return list
}

// writeBusyHelpers writes the table of busy helpers and the remedies, then the problems of the measurement.
func writeBusyHelpers(w io.Writer, width int, list []busyHelper, problems []string) error {
	if len(list) > 0 {
		if err := writeHelperTable(w, width, list); err != nil {
			return err
		}
	}
	for _, line := range problems {
		fmt.Fprintf(w, "\n%s\n", errorText(line))
	}
	return nil
}

func writeHelperTable(w io.Writer, width int, list []busyHelper) error {
	fmt.Fprintf(w, "\nHelpers use more than %.0f %% of these limits, in CPUs:\n\n", 100*minBusyShare)
	t := texttable.Table{Titles: []string{"NAME", "RUNTIME", "LIMIT", "HELPERS", "SHARE", "WORK"}, Ranks: []int{0, 2, 1, 0, 0, 3}}
	runtimes := map[string]bool{}
	for _, c := range list {
		runtimes[c.Runtime] = true
		t.Rows = append(t.Rows, []string{errorText(shorten(c.Name, 60)), cmp.Or(c.Runtime, "-"), limit(c.Limit), fmt.Sprintf("%.3f", c.used),
			fmt.Sprintf("%.0f%%", 100*helperShare(c.Container, c.used)), c.kinds})
	}
	if err := t.Write(w, width); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, runtime := range slices.Sorted(maps.Keys(runtimes)) {
		fmt.Fprintf(w, "%s: %s.\n", cmp.Or(runtime, "other engines"), helperRemedies[runtime])
	}
	return nil
}

// helperRemedies are the ways to bound or avoid the work of helpers, by runtime.
var helperRemedies = map[string]string{
	"docker":     "write fewer lines, or set --log-driver local (cheaper than json-file) or none",
	"containerd": "write fewer lines, or write the log to a volume; containerd itself cannot be limited for a container",
	"cri-o":      "write fewer lines, or set conmon_cgroup = \"pod\", so that the pod's limit bounds conmon",
	"podman":     "write fewer lines, set --log-driver none, or a --cgroup-parent with a quota, which bounds conmon too",
	"candor":     "write fewer lines, or set a cheaper log driver in the engine",
	"":           "write fewer lines, or write the log to a volume",
}
