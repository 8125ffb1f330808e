package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

const inspectLong = `Show the details of a container: the CPUs that Candor gave it, the settings in the
kernel, the CPUs that it sees (its view), its throttling, and the use of its exclusive
CPUs by programs outside of Candor. For root, the command also shows the CPU use of the
container's helpers. These are engine processes that work for the container, such as
dockerd.`

func newInspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect NAME",
		Short:   "Show the details of a container",
		Long:    inspectLong,
		Example: "  candor inspect web\n  candor inspect default/web-0/app\n  candor inspect web -o json | jq .group.throttledPeriods",
		Args:    oneName,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json")
	during := cmd.Flags().Duration("during", 250*time.Millisecond, "time to sample helpers and programs outside of Candor; 0 disables the sampling")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *during < 0 || *during > time.Hour {
			return badInput("--during %v: must be 0 to 1h", *during)
		}
		report, err := machine.inspect(cmd, args[0], *during)
		if err != nil {
			return hostError(err)
		}
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), report)
		}
		return writeInspection(cmd.OutOrStdout(), report)
	}
	return cmd
}

// inspect reads the details of a container and samples foreign processes on its CPUs.
func (f *hostFlags) inspect(cmd *cobra.Command, name string, during time.Duration) (*inspection, error) {
	h, snapshot, err := f.snapshot(cmd)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	g, err := grantNamed(snapshot, name)
	if err != nil {
		return nil, err
	}
	look := h.InspectContainer(g)
	report := newInspection(g, look, snapshot.Now)
	report.read(h, g)
	report.see(&observeAll(h, []host.Grant{*g})[0])
	limits, err := h.GroupLimits(snapshot)
	if err != nil {
		return nil, err
	}
	for _, l := range limits {
		if slices.Contains(l.Containers, g.ID) {
			report.LimitedBy = append(report.LimitedBy, cpumap.GroupLimit(l))
		}
	}
	if during > 0 && look.Exists {
		return report, report.measure(cmd, h, g, during)
	}
	return report, nil
}

// measure samples the foreign processes on the container's exclusive CPUs, and the helpers of the container.
func (r *inspection) measure(cmd *cobra.Command, h *host.Host, g *host.Grant, during time.Duration) error {
	id, hasEngine := engineID(g)
	var meter *helpers.Meter
	if hasEngine {
		meter = helpers.Open()
		defer meter.Close()
	}
	before := meter.Read()
	used, err := h.SampleForeign(cmd.Context(), g, during)
	if err != nil {
		return err
	}
	r.Strangers = foreignUsesOf(g, used)
	after := meter.Read()
	figures := helpers.Between(before, after)
	if whole := figures.Find(id); whole != "" {
		r.Helpers = newHelperRows(whole, after, figures)
	}
	return nil
}

// engineID returns the ID of the container in its engine. For a Docker container under candor-runc, the result can be only the
// beginning of this ID, because Candor uses the beginning as the container's name. ok is false for a program of candor run.
func engineID(g *host.Grant) (id string, ok bool) {
	if id, ok = audit.ContainerID(g.Engine.Cgroup); ok {
		return id, true
	}
	return g.ID, shortContainerID.MatchString(g.ID)
}

var shortContainerID = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// helperRows are the helpers of a container as inspect writes them.
type helperRows struct {
	Uses      []helpers.UseDocument `json:"uses"`
	Processes []helperProcess       `json:"processes"`
	problems  []string
}

// A helperProcess is a process that works for the container, but runs in another cgroup. The limit of that cgroup bounds the
// process.
type helperProcess struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	Cgroup string `json:"cgroup"`
	Serves int    `json:"serves"` // number of containers that the process works for
}

func newHelperRows(id string, r *helpers.Reading, figures *helpers.Figures) *helperRows {
	rows := &helperRows{Uses: helpers.Documents(figures.Containers[id]), Processes: []helperProcess{}, problems: figures.Problems()}
	for _, h := range r.Helpers {
		if slices.Contains(h.Serves, id) {
			rows.Processes = append(rows.Processes, helperProcess{h.Name, h.PID, h.Cgroup, len(h.Serves)})
		}
	}
	return rows
}

func (r *helperRows) write(row func(string, string, ...any)) {
	if r == nil {
		return
	}
	for _, p := range r.Processes {
		row("helper", "%s, process %d, for %s; the cgroup %s pays", errorText(p.Name), p.PID, count(p.Serves, "container", "containers"), errorText(p.Cgroup))
	}
	for _, line := range r.problems {
		row("helpers", "%s", errorText(line))
	}
	for _, u := range r.Uses {
		row("helpers use", "%.3f CPUs, %s (%s)", u.Use/1000, u.Kind, u.Method)
	}
}

// An inspection is the output of inspect. Scripts depend on its JSON form, as for grantRow.
type inspection struct {
	grantRow
	Group     *groupRow           `json:"group,omitempty"`  // settings in the kernel; absent without a cgroup
	Shown     cpuset.Set          `json:"shown"`            // CPUs in the container's files of /proc and /sys; empty if unknown
	Sources   []view.Source       `json:"sources,omitzero"` // CPUs that programs find in each source; absent unless it runs
	LimitedBy []cpumap.GroupLimit `json:"limitedBy"`        // quotas of the ancestors of the container's cgroup
	Strangers []cpumap.ForeignUse `json:"strangers,omitzero"`
	Charged   bool                `json:"charged"`           // the quota is below the limit, because of helpers
	Helpers   *helperRows         `json:"helpers,omitempty"` // absent if the container has no engine, or helpers were not measured
}

type groupRow struct {
	CPUs             cpuset.Set `json:"cpus"`
	Mems             cpuset.Set `json:"mems"`
	QuotaSeconds     float64    `json:"quotaSeconds"` // 0: no quota
	PeriodSeconds    float64    `json:"periodSeconds"`
	BurstSeconds     float64    `json:"burstSeconds"`
	Weight           int        `json:"weight"`
	UsageSeconds     float64    `json:"usageSeconds"`
	Periods          uint64     `json:"periods"`
	Throttled        uint64     `json:"throttledPeriods"`
	ThrottledSeconds float64    `json:"throttledSeconds"`
}

func newInspection(g *host.Grant, look *host.ContainerState, now time.Duration) *inspection {
	report := &inspection{grantRow: newGrantRow(g, look, now), LimitedBy: []cpumap.GroupLimit{}}
	if look.Exists {
		report.Charged = g.IsCharged(look.Settings.Quota)
		report.Group = &groupRow{
			CPUs: look.Settings.CPUs, Mems: look.Settings.Mems,
			QuotaSeconds: look.Settings.Quota.Seconds(), PeriodSeconds: look.Settings.Period.Seconds(),
			BurstSeconds: look.Settings.Burst.Seconds(), Weight: look.Settings.Weight,
			UsageSeconds: look.Stat.CPU.Seconds(), Periods: look.Stat.Periods,
			Throttled: look.Stat.Throttled, ThrottledSeconds: look.Stat.ThrottledTime.Seconds(),
		}
	}
	return report
}

// see sets the CPUs that the programs of the container see.
func (r *inspection) see(o *host.Observation) {
	r.grantRow.see(o)
	r.Shown, _ = o.Files()
	r.Sources = o.Sources
}

func writeInspection(w io.Writer, r *inspection) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("name", "%s", r.name())
	if r.Name != (podname.Name{}) {
		row("id", "%s", r.ID)
	}
	row("state", "%s, %s old, %s", r.State, r.age(), count(len(r.PIDs), "process", "processes"))
	for _, d := range r.Degraded {
		row("degraded", "%s is %s, granted is %s; the next operation tries again", d.Setting, errorText(d.Has), d.Granted)
	}
	row("command", "%s", errorText(r.Command))
	row("class", "%s, %s", r.Class, r.Policy)
	kept := ""
	if !r.TopologyKept {
		kept = ": its CPUs are not so"
	}
	row("topology", "%s%s", r.Topology, kept)
	row("limit", "%s%s", limit(r.Limit), r.limitedBy())
	if r.Request != r.Limit {
		row("request", "%s", limit(r.Request))
	}
	row("CPUs", "%s%s; exclusive: %s", noneIfEmpty(r.CPUs), parts(r.Fractions), noneIfEmpty(r.Exclusive))
	if !r.Lost.IsEmpty() {
		row("lost", "%s: the machine has none to replace them", cputext.CPUs(r.Lost))
	}
	if g := r.Group; g != nil {
		writeGroup(row, r, g)
	} else {
		row("group", "none yet")
	}
	r.writeView(row)
	row("on resize", "%s", errorText(r.OnResize))
	row("burst", "%s", r.Burst)
	row("ledger", "%s%s", r.HelperLevel, r.chargedText())
	writeStrangers(row, r.Strangers)
	r.Helpers.write(row)
	return t.Flush()
}

// writeView writes the view that is set and the view that the programs see.
func (r *inspection) writeView(row func(string, string, ...any)) {
	if len(r.Sources) == 0 {
		row("view", "%s", r.View)
		return
	}
	row("view", "%s (the program sees: %s)", r.View, cmp.Or(r.ViewSeen, "unknown"))
	isAgreed := true
	for _, s := range r.Sources {
		isAgreed = isAgreed && (s.Role != view.Reported || s.Error == "" && s.CPUs == r.Sources[0].CPUs)
	}
	text := r.Summary.String()
	if isAgreed {
		text = cputext.CPUs(r.Shown)
	}
	if r.Note != "" {
		text += ": " + errorText(r.Note)
	}
	row("sees", "%s", text)
	for _, s := range r.Sources {
		if !isAgreed && s.Role == view.Reported {
			row("", "%s: %s", s.Name, cmp.Or(errorText(s.Error), cputext.CPUs(s.CPUs)))
		}
	}
}

// chargedText explains a quota below the limit: helpers of the container use a part of the limit.
func (r *inspection) chargedText() string {
	if !r.Charged {
		return ""
	}
	return "; charged: helpers use a part of the limit, so the quota is lower (candor ledger show)"
}

// limitedBy names the ancestors of the container's cgroup that limit the container, with the number of other containers that share the
// limit.
func (r *inspection) limitedBy() (text string) {
	for _, l := range r.LimitedBy {
		text += ", " + l.String()
		if others := len(l.Containers) - 1; others > 0 {
			text += " together with " + count(others, "other container", "other containers")
		}
	}
	return text
}

func writeGroup(row func(string, string, ...any), r *inspection, g *groupRow) {
	quota := "no quota"
	if g.QuotaSeconds > 0 {
		quota = fmt.Sprintf("quota %v per %v", duration(g.QuotaSeconds), duration(g.PeriodSeconds))
	}
	drift := ""
	if g.CPUs != r.CPUs {
		drift = " (differs from the grant: the next operation repairs it)"
	}
	row("kernel", "%s%s, %s, %s, weight %d", cputext.CPUs(g.CPUs), drift, cputext.Mems(g.Mems), quota, g.Weight)
	row("used", "%.2f s of CPU time", g.UsageSeconds)
	if g.QuotaSeconds > 0 {
		row("throttled", "in %d of %s, %.2f s in all", g.Throttled, count(g.Periods, "period", "periods"), g.ThrottledSeconds)
	}
}

func writeStrangers(row func(string, string, ...any), strangers []cpumap.ForeignUse) {
	seen := false
	for _, s := range strangers {
		if s.Milli >= 10 {
			seen = true
			row("foreign processes", "use %.0f %% of %s", float64(s.Milli)/10, cputext.CPUs(s.CPUs))
		}
	}
	if !seen && strangers != nil {
		row("foreign processes", "none seen on its exclusive CPUs")
	}
}

// duration converts seconds to a time.Duration, rounded to microseconds.
func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}

func noneIfEmpty(s cpuset.Set) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}

// A grantRow is a container as ps and inspect write it. Scripts depend on its JSON form, which docs/reference/json.md describes
// field by field.
type grantRow struct {
	ID           string                `json:"id"`
	DisplayName  string                `json:"name"`
	podname.Name                       // absent for a program of candor run; a container of an engine outside of pods has only `container`
	State        string                `json:"state"`             // pending, running, paused, held, ended, degraded
	Degraded     []host.Difference     `json:"degraded,omitzero"` // settings that differ from the grant
	Class        hybrid.Class          `json:"class"`
	Policy       hybrid.Policy         `json:"policy"`
	Topology     hybrid.TopologyPolicy `json:"topology"`
	TopologyKept bool                  `json:"topologyKept"`
	Limit        hybrid.Milli          `json:"limitMilli"`   // 0: no limit
	Request      hybrid.Milli          `json:"requestMilli"` // the guarantee
	CPUs         cpuset.Set            `json:"cpus"`
	Exclusive    cpuset.Set            `json:"exclusive"`
	Fractions    planio.Fractions      `json:"fractionsMilli,omitzero"` // absent for a flexible container
	Quota        hybrid.Milli          `json:"quotaMilli,omitempty"`    // absent without a quota
	Weight       hybrid.Milli          `json:"weight"`
	Lost         cpuset.Set            `json:"lost"` // CPUs that the container had, and that the machine no longer has
	View         spec.View             `json:"view"`
	ViewSeen     spec.View             `json:"viewSeen,omitempty"` // view that the container's programs see; absent if unknown
	view.Summary                       // CPUs that the container's programs see
	OnResize     string                `json:"onResize"`
	HelperLevel  spec.Helpers          `json:"helperLevel"`
	Burst        string                `json:"burst"`         // none, kernel, quota, auto or a time
	PID          int                   `json:"pid,omitempty"` // first process; absent if Candor did not start it
	PIDs         []int                 `json:"pids"`
	Age          float64               `json:"ageSeconds"`
	Command      string                `json:"command"`
}

func newGrantRow(g *host.Grant, look *host.ContainerState, now time.Duration) grantRow {
	row := grantRow{
		ID: g.ID, DisplayName: g.DisplayName(), Name: g.Engine.DisplayName(), State: look.Condition(g), Degraded: look.Differences, Class: g.Class, Policy: g.Policy, Topology: g.Topology, TopologyKept: g.TopologyMet,
		Limit: g.Limit, Request: g.Guaranteed(), CPUs: g.CPUs, Exclusive: g.Exclusive, Quota: g.Quota, Weight: g.Weight,
		Lost: g.Lost, View: g.View, OnResize: g.OnResize, HelperLevel: g.Helpers, Burst: g.Burst.String(), PID: g.Main.PID,
		PIDs: append([]int{}, look.Processes...), Age: (now - g.Since).Seconds(), Command: g.Command,
	}
	if g.Class == hybrid.Sensitive {
		row.Fractions = append(planio.Fractions{}, g.Fractions...)
	}
	return row
}

// read sets Command to the program's command line, and OnResize to the command of the method exec instead of the file with the
// command. If the caller may not read one of them, that field has only the program's name or the file.
func (r *grantRow) read(h *host.Host, g *host.Grant) {
	r.Command, r.OnResize = h.CommandLine(g), h.OnResize(g)
}

// see sets the CPUs that the programs of the container see.
func (r *grantRow) see(o *host.Observation) { r.ViewSeen, r.Summary = o.SeenView, o.Summary() }

// name returns the display name of the container without control characters.
func (r *grantRow) name() string { return cpumap.Clean(cmp.Or(r.Name.String(), r.ID)) }

// command returns the command for a table. For a container in a pod, the state stores the container's name as its command. command then
// returns "", because the table has the name already.
func (r *grantRow) command() string {
	if r.Command == r.Name.String() {
		return ""
	}
	return errorText(shorten(r.Command, 50))
}

// age returns the time since the container got its CPUs, such as 12m.
func (r *grantRow) age() string { return age(time.Duration(r.Age * float64(time.Second))) }

// sayStrays prints a warning on standard error if cgroups of Candor are not in the state, or belong to another state.
func sayStrays(cmd *cobra.Command, s *host.Snapshot) {
	if beside := s.Warning(); beside != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "candor:", errorText(beside))
	}
}

// errorText removes control characters from a text that another program has written.
func errorText(s string) string { return errorLine(fmt.Errorf("%s", s)) }

// writeJSON writes the JSON of a command that writes a single value.
func writeJSON(w io.Writer, v any) error { return jsonout.Write(w, v) }

// writeJSONLine writes the JSON of a command that can write several values, a line each.
func writeJSONLine(w io.Writer, v any) error { return jsonout.WriteLine(w, v) }

// age formats a time span as a whole number of one unit: 5s, 12m, 3h, 2d.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
