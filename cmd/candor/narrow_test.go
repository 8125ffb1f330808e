package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/experiment/probe"
	"github.com/candor-project/candor/fleet/packing"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
	"github.com/candor-project/candor/view"
)

// TestNarrowTables: on a narrow terminal, no line of a table is wider than the terminal, and the most important columns remain.
func TestNarrowTables(t *testing.T) {
	found := []audit.Container{{Name: "default/web-7d4b9c/app", ID: "web", Runtime: "containerd", Limit: 500, Sees: 64, Threads: 80, Periods: 100, Throttled: 60}}
	figures := &helpers.Figures{Containers: map[string][]helpers.Use{"web": {{Kind: ledger.Log, Method: ledger.BPF, CPUs: 0.25}, {Kind: ledger.Shim, Method: ledger.Exact, CPUs: 0.125}}}}
	row := grantRow{
		Name: podname.Name{Namespace: "default", Pod: "web-7d4b9c", Container: "app"}, State: "running", Class: hybrid.Sensitive, Limit: 1500, CPUs: cpuset.MustParse("4-5"),
		Summary: view.Summary{Affinity: 2, Files: 2}, PIDs: []int{1, 2}, Age: 7200, Command: "/usr/sbin/nginx -g 'daemon off;' -c /etc/nginx/nginx.conf",
	}
	report := &ledgerReport{During: 2, hasPackets: true, Unattributed: map[string]float64{"containerd": 0.5},
		Containers: []ledgerRow{{Name: "default/web-7d4b9c/app", Limit: 500, Own: 0.25, Credit: new(0.0), Uses: figures.Containers["web"]}}}
	const hidden, cut, list = "Hidden: ", "…", "Use -o wide for the matrix"
	usage := &timescale.Summary{Groups: []timescale.Group{{Group: record.Group{Name: "/kubepods/burstable/pod7b4c1ab2/0123456789abcdef"}, To: time.Minute,
		Figures: []timescale.Figures{{Window: 100 * time.Millisecond, Windows: 600, Mean: 0.25, P50: 0.2, P99: 1.9, Peak: 2, PeakToMean: 8, Burstiness: 1.5}}}}}
	sources := []view.Source{{Name: "/sys/devices/system/cpu/online", Count: 64, CPUs: cpuset.Range(0, 63), Path: "/sys/devices/system/cpu/online"}}
	checks := &doctor.Report{Checks: []doctor.Row{{Group: "kernel", ID: "cgroup-controllers", Found: "the root cgroup lacks the controllers cpu and cpuset, which systemd does not delegate"}}}
	prediction := &experiment.Prediction{Starts: []experiment.Start{{CPUs: 2, Seen: probe.Seen{Sources: []probe.Source{{Name: "sched_getaffinity"}, {Name: "/sys/devices/system/cpu/online"}, {Name: "/proc/cpuinfo"}}}}}}
	apps, nodes := packing.List{Resources: []string{"cpu", "memory", "disk"}}, packing.List{Resources: []string{"cpu", "memory", "disk"}}
	solution := &packing.Solution{NodeOf: make([]int, 3), Used: 1}
	for i := range 12 {
		nodes.Items = append(nodes.Items, packing.Item{Name: fmt.Sprintf("node-%d.example.org", i), Amounts: []int64{64000, 1 << 40, 1 << 40}})
	}
	for i := range solution.NodeOf {
		apps.Items = append(apps.Items, packing.Item{Name: fmt.Sprintf("application-%d", i), Amounts: []int64{1500, 1 << 30, 1 << 30}})
	}
	evaluation := experiment.Evaluation{Workload: "solver --size 4096", Limit: 1500, Verdict: experiment.Sensitive, Pairs: 12, Ratio: 1.25, Interval: experiment.Interval{Low: 1.1, High: 1.4}}
	for _, c := range []struct {
		name    string
		width   int
		write   func(out *bytes.Buffer, width int) error
		columns string
		mark    string // of a table that does not show everything
	}{
		{"ps", 80, func(out *bytes.Buffer, width int) error { return writeRows(out, width, []grantRow{row}) }, "NAME CLASS LIMIT SEES CPUS STATE COMMAND", hidden},
		{"ps", 60, func(out *bytes.Buffer, width int) error { return writeRows(out, width, []grantRow{row}) }, "NAME LIMIT SEES CPUS STATE", hidden},
		{"audit", 58, func(out *bytes.Buffer, width int) error {
			return writeAudit(out, width, auditRows(found, true, figures), nil)
		}, "NAME SEES LIMIT THROTTLED GAIN", hidden},
		{"helpers of audit", 55, func(out *bytes.Buffer, width int) error {
			return writeHelperTable(out, width, busyHelpers(found, figures))
		}, "NAME LIMIT HELPERS SHARE", hidden},
		{"ledger", 50, func(out *bytes.Buffer, width int) error { return report.writeTable(out, width) }, "NAME OWN LOG SHIM RX", hidden},
		{"classify", 50, func(out *bytes.Buffer, width int) error {
			return evaluationTable([]experiment.Evaluation{evaluation}).Write(out, width)
		}, "WORKLOAD CPU GAIN VERDICT", hidden},
		{"usage", 60, func(out *bytes.Buffer, width int) error { return writeUsage(out, width, usage) }, "GROUP WINDOW MEAN P99 PEAK PEAK/MEAN", hidden},
		{"view", 60, func(out *bytes.Buffer, width int) error {
			var text strings.Builder
			writeSources(&text, width, sources)
			out.WriteString(text.String())
			return nil
		}, "SOURCE COUNT CPUS", cut},
		{"setup", 50, func(out *bytes.Buffer, width int) error {
			return setupTable([]setupRow{{"containerd", stateNotDone, "containerd 1.7.1 uses /etc/containerd/conf.d/site.toml: enable NRI there by hand"}}).Write(out, width)
		}, "SETUP STATE DETAILS", cut},
		{"classify --probe", 50, func(out *bytes.Buffer, width int) error {
			var text strings.Builder
			writePrediction(&text, width, prediction, "")
			_, table, _ := strings.Cut(text.String(), "\n\n") // after the prediction
			out.WriteString(table)
			return nil
		}, "SEES THREADS ASKS", cut},
		{"doctor", 80, func(out *bytes.Buffer, width int) error { return doctorTable(checks, false).Write(out, width) }, "STATUS GROUP CHECK FOUND", cut},
		{"place", 80, func(out *bytes.Buffer, width int) error {
			return writeSolution(out, width, solution, apps, nodes, packing.Nodes)
		}, "APPLICATION NODE", list},
		{"place", 60, func(out *bytes.Buffer, width int) error {
			return writeSolution(out, width, solution, apps, nodes, packing.Nodes)
		}, "NODE APPLICATIONS CPU", hidden},
	} {
		var wide, narrow bytes.Buffer
		if err := c.write(&wide, 0); err != nil {
			t.Fatal(err)
		}
		if err := c.write(&narrow, c.width); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(narrow.String(), c.mark) || strings.Contains(wide.String(), c.mark) {
			t.Errorf("%s: got\n%s\nand with -o wide\n%s", c.name, &narrow, &wide)
		}
		isTitled := false
		table, _, _ := strings.Cut(narrow.String(), hidden)
		if c.mark == list {
			table, _, _ = strings.Cut(table, "\n1 of ")
		}
		for line := range strings.Lines(table) {
			if c.name == "usage" && !strings.Contains(line, "  ") { // the description of the recording
				continue
			}
			if utf8.RuneCountInString(strings.TrimRight(line, " \n")) > c.width {
				t.Errorf("%s: wider than %d: %q", c.name, c.width, line)
			}
			isTitled = isTitled || strings.Join(strings.Fields(line), " ") == c.columns
		}
		if !isTitled {
			t.Errorf("%s: no columns %s in\n%s", c.name, c.columns, &narrow)
		}
	}
}
