package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/ledger"
	"github.com/candor-project/candor/ledger/softirq"
)

const ledgerLong = `Show the CPU time that helpers spend for containers.

If a container writes to its standard output, the container's shim and containerd, dockerd
or conmon copy the output to a log. The CPU time of these helpers does not count against
the limit of the container.`

func newLedgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ledger",
		Short:   "Show and charge the CPU time that helpers spend for containers",
		Long:    ledgerLong,
		Example: "  candor ledger show\n  candor ledger watch",
		Args:    noArgs,
	}
	cmd.AddCommand(newLedgerShowCommand(), newLedgerWatchCommand(), newLedgerAgentCommand(), newLedgerChargeCommand(), newLedgerGuardCommand())
	return cmd
}

const ledgerColumns = `LIMIT   smallest CPU quota of the container's cgroup and its ancestors
OWN     CPUs that the container's processes use
LOG     CPUs that the engine uses to copy the container's output to its log
SHIM    CPUs that the shim uses
EXEC    CPUs that the engine uses to copy the output of exec
RX      CPUs that other containers and the host use for the container's packets
        (--softirq)
CREDIT  CPUs that the container uses for packets of other containers (--softirq)
READ    CPUs that the engine uses for readers of the log, such as docker logs; the
        container does not cause this work
METHOD  how the command finds the part of the helpers' CPU time that belongs to the
        container
        exact:      the helper works for this container alone
        bpf:        the engine works for several containers; samples of its system
                    calls divide its CPU time between the containers
        registers:  as for bpf, but with samples of the engine's CPU registers; less
                    exact than bpf, used without CAP_BPF

Without CAP_PERFMON, the command does not divide the CPU time of containerd and dockerd
between containers.

A line with a daemon's name in parentheses shows the part of the daemon's CPU time that
no container caused, or for which the container is not known.`

func newLedgerShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Measure the helpers for a short time and list the containers",
		Long: `Measure the helpers of container engines for a short time and list the containers.
The container with the busiest helpers comes first. The command changes nothing and needs
root.

` + ledgerColumns,
		Example: "  candor ledger show\n  candor ledger show --during 10s -o json",
		Args:    noArgs,
	}
	output := outputFlag(cmd, "table", "wide", "json")
	packets := softirqFlag(cmd)
	during := cmd.Flags().Duration("during", 2*time.Second, "time to measure, 100ms to 1h")
	options := cgroup.Options{ReadOnly: true}
	driver := addGroupFlags(cmd, &options)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options.Driver = cgroup.Driver(driver.value)
		m, err := newLedgerMeter("--during", *during, options, *packets)
		if err != nil {
			return err
		}
		defer m.Close()
		if err := m.next(); err != nil {
			return err
		}
		return m.show(cmd, *during, output)
	}
	return cmd
}

func newLedgerWatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Measure the helpers and list the containers repeatedly",
		Long: `Measure the helpers of container engines. At the end of each interval, the command prints
a table, or with -o json a line with a JSON object, until Ctrl-C. The command changes
nothing and needs root.

` + ledgerColumns,
		Example: "  candor ledger watch\n  candor ledger watch --interval 1s -n 60 -o json > minute.jsonl",
		Args:    noArgs,
	}
	output := outputFlag(cmd, "table", "wide", "json")
	packets := softirqFlag(cmd)
	interval := cmd.Flags().Duration("interval", 2*time.Second, "time between two tables, 100ms to 1h")
	readings := cmd.Flags().IntP("readings", "n", 0, "number of tables to print before the exit; 0: print until Ctrl-C")
	options := cgroup.Options{ReadOnly: true}
	driver := addGroupFlags(cmd, &options)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *readings < 0 {
			return badInput("-n %d: must be 0 or more", *readings)
		}
		options.Driver = cgroup.Driver(driver.value)
		m, err := newLedgerMeter("--interval", *interval, options, *packets)
		if err != nil {
			return err
		}
		defer m.Close()
		return m.watch(cmd, *interval, *readings, output)
	}
	return cmd
}

// show writes the report of a single measurement. A signal ends the measurement early.
func (m *ledgerMeter) show(cmd *cobra.Command, during time.Duration, output *choice) error {
	ctx, stop := untilSignal(cmd)
	defer stop()
	report, err := m.measure(ctx, during)
	if err != nil {
		return err
	}
	if out := cmd.OutOrStdout(); output.value == "json" {
		err = writeJSON(out, report.document())
	} else {
		err = report.writeTable(out, tableWidth(out, output))
	}
	if err == nil && report.Partial {
		return stoppedError(ctx, "%.1f s of %v measured", report.During, during)
	}
	return err
}

// watch writes a report at each interval. It ends after the given number of reports; 0 means no end. A signal ends the last
// interval early. If readings is above 0, watch also writes the report of this interval, and marks it as partial.
func (m *ledgerMeter) watch(cmd *cobra.Command, interval time.Duration, readings int, output *choice) error {
	if err := m.next(); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	out := cmd.OutOrStdout()
	for n := 0; readings == 0 || n < readings; n++ {
		report, err := m.measure(ctx, interval)
		if err != nil {
			return err
		}
		if report.Partial && readings == 0 {
			return stoppedError(ctx, "%s done", count(n, "measurement", "measurements"))
		}
		if output.value == "json" {
			err = writeJSONLine(out, report.document())
		} else {
			if n > 0 {
				fmt.Fprintln(out)
			}
			err = report.writeTable(out, tableWidth(out, output))
		}
		if err != nil {
			return err
		}
		if report.Partial {
			return stoppedError(ctx, "%d of %s done", n, count(readings, "measurement", "measurements"))
		}
	}
	return nil
}

// A ledgerMeter measures containers and their helpers.
type ledgerMeter struct {
	tree    *cgroup.Tree
	helpers *helpers.Meter
	before  *ledgerReading
}

type ledgerReading struct {
	at         time.Time
	helpers    *helpers.Reading
	containers []audit.Container
	used       map[string]time.Duration // CPU time of each container's cgroup, by cgroup
}

// softirqFlag adds the flag --softirq.
func softirqFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("softirq", false, "also measure the CPU time of received packets, at a cost for each packet")
}

// addPackets makes a meter also measure the CPU time of received packets.
func addPackets(m *helpers.Meter, tree *cgroup.Tree) error {
	host, err := audit.HostNetwork()
	if err == nil {
		err = m.AddPackets(softirq.Options{
			IsUnified: tree.Version() == 2, Host: host,
			Find: func() ([]softirq.Container, error) { return audit.Networks(tree) },
		})
	}
	if err != nil {
		return badInput("--softirq: %v", err)
	}
	return nil
}

func newLedgerMeter(flag string, during time.Duration, options cgroup.Options, packets bool) (*ledgerMeter, error) {
	if during < 100*time.Millisecond || during > time.Hour {
		return nil, badInput("%s %v: must be 100ms to 1h", flag, during)
	}
	if err := needsRootForHelpers(); err != nil {
		return nil, err
	}
	tree, err := cgroup.Open(options)
	if err != nil {
		return nil, &exitError{exitBadInput, err}
	}
	m := &ledgerMeter{tree: tree, helpers: helpers.Open()}
	if packets {
		if err := addPackets(m.helpers, tree); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

func (m *ledgerMeter) Close() {
	m.helpers.Close()
	m.tree.Close()
}

// next takes a reading and stores it in m.before.
func (m *ledgerMeter) next() error {
	r := &ledgerReading{helpers: m.helpers.Read(), at: time.Now(), used: map[string]time.Duration{}}
	var err error
	if r.containers, err = audit.Read(m.tree); err != nil {
		return err
	}
	for _, c := range r.containers {
		if usage, err := m.tree.ReadUsage(c.Group); err == nil {
			r.used[c.Group] = usage.CPU
		}
	}
	m.before = r
	return nil
}

// measure waits for the time during, takes a reading and returns the report on the time since the previous reading. If ctx ends,
// the wait ends early, and the report is partial.
func (m *ledgerMeter) measure(ctx context.Context, during time.Duration) (*ledgerReport, error) {
	before := m.before
	select {
	case <-ctx.Done():
	case <-time.After(during):
	}
	if err := m.next(); err != nil {
		return nil, err
	}
	report := newLedgerReport(before, m.before)
	report.Partial = ctx.Err() != nil
	return report, nil
}

// A ledgerReport is a measurement of helpers. Uses are in CPUs.
type ledgerReport struct {
	Partial      bool    // a signal ended the measurement early
	During       float64 // seconds
	Method       ledger.Method
	Refusal      string // reason if Method is ledger.None
	Failure      string // reason why the CPU time of some helpers is unattributed or missing
	Containers   []ledgerRow
	Unattributed map[string]float64 // CPUs that a daemon uses for no known container, by daemon
	problems     []string
	hasPackets   bool
}

type ledgerRow struct {
	Name    string
	ID      string
	Runtime string
	Limit   hybrid.Milli // 0: no limit
	Own     float64
	Charged float64  // CPUs that helpers use, without the work for readers of the log
	Credit  *float64 // CPUs used for packets of other containers; nil: packets are not measured
	Uses    []helpers.Use
}

func newLedgerReport(before, after *ledgerReading) *ledgerReport {
	figures := helpers.Between(before.helpers, after.helpers)
	r := &ledgerReport{During: after.at.Sub(before.at).Seconds(), Method: after.helpers.Method, Containers: []ledgerRow{}, Unattributed: map[string]float64{}}
	if figures == nil {
		return r
	}
	r.hasPackets = figures.Credits != nil
	r.Unattributed, r.problems = figures.Unattributed, figures.Problems()
	if figures.Refusal != nil {
		r.Refusal = figures.Refusal.Error()
	}
	if figures.Failure != nil {
		r.Failure = figures.Failure.Error()
	}
	for _, c := range after.containers {
		id := figures.Find(c.ID)
		if id == "" {
			continue
		}
		uses := figures.Containers[id]
		row := ledgerRow{Name: c.Name, ID: id, Runtime: c.Runtime, Limit: c.Limit, Uses: uses}
		row.Charged, _ = figures.Charged(id)
		if credit, exists := figures.Credits[id]; exists {
			row.Credit = &credit
		}
		if was, known := before.used[c.Group]; known {
			row.Own = max((after.used[c.Group]-was).Seconds()/r.During-helpers.PlacedUse(after.helpers.Helpers, id, c.Group, uses), 0)
		}
		r.Containers = append(r.Containers, row)
	}
	slices.SortFunc(r.Containers, func(a, b ledgerRow) int {
		return cmp.Or(cmp.Compare(b.Charged, a.Charged), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return r
}

// writeTable writes the table. width is the width of the terminal; 0: unlimited (tableWidth).
func (r *ledgerReport) writeTable(w io.Writer, width int) error {
	if r.Partial {
		fmt.Fprint(w, partialLine(fmt.Sprintf("the measurement covers %.1f s", r.During)))
	}
	if err := r.table().Write(w, width); err != nil {
		return err
	}
	if len(r.Containers) == 0 {
		fmt.Fprintln(w, "No container has a helper here.")
	}
	for _, line := range r.problems {
		fmt.Fprintf(w, "\n%s\n", errorText(line))
	}
	return nil
}

func (r *ledgerReport) table() *texttable.Table {
	t := &texttable.Table{Titles: []string{"NAME", "LIMIT", "OWN", "LOG", "SHIM", "EXEC"}, Ranks: []int{0, 3, 0, 0, 1, 4}}
	if r.hasPackets {
		t.Titles, t.Ranks = append(t.Titles, "RX", "CREDIT"), append(t.Ranks, 2, 5)
	}
	t.Titles, t.Ranks = append(t.Titles, "READ", "METHOD"), append(t.Ranks, 6, 7)
	for i := range r.Containers {
		c := &r.Containers[i]
		row := []string{errorText(shorten(c.Name, 60)), limit(c.Limit), inCPUs(c.Own), c.use(ledger.Log), c.use(ledger.Shim), c.use(ledger.Exec)}
		if r.hasPackets {
			row = append(row, c.packets()...)
		}
		t.Rows = append(t.Rows, append(row, c.use(ledger.Read), c.methods()))
	}
	for _, daemon := range slices.Sorted(maps.Keys(r.Unattributed)) {
		row := make([]string, len(t.Titles))
		row[0], row[2], row[len(row)-1] = "("+daemon+")", inCPUs(r.Unattributed[daemon]), "unattributed"
		t.Rows = append(t.Rows, row)
	}
	return t
}

// inCPUs formats a CPU use.
func inCPUs(use float64) string { return fmt.Sprintf("%.3f", use) }

// use formats the CPU use of a kind of work.
func (c *ledgerRow) use(kind ledger.Kind) string {
	sum, known := 0.0, false
	for _, u := range c.Uses {
		if u.Kind == kind {
			sum, known = sum+u.CPUs, true
		}
	}
	if !known {
		return "-"
	}
	return inCPUs(sum)
}

// packets formats the cells RX and CREDIT.
func (c *ledgerRow) packets() []string {
	if c.Credit == nil {
		return []string{"-", "-"}
	}
	return []string{c.use(ledger.RX), inCPUs(*c.Credit)}
}

// methods lists the methods by which the helpers of the container were measured.
func (c *ledgerRow) methods() string {
	var list []string
	for _, u := range c.Uses {
		list = append(list, string(u.Method))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}
