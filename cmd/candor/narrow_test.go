package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/experiment"
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
	evaluation := experiment.Evaluation{Workload: "solver --size 4096", Limit: 1500, Verdict: experiment.Sensitive, Pairs: 12, Ratio: 1.25, Interval: experiment.Interval{Low: 1.1, High: 1.4}}
	for _, c := range []struct {
		name    string
		width   int
		write   func(out *bytes.Buffer, width int) error
		columns string
	}{
		{"ps", 80, func(out *bytes.Buffer, width int) error { return writeRows(out, width, []grantRow{row}, false) }, "NAME CLASS LIMIT SEES CPUS STATE COMMAND"},
		{"ps", 60, func(out *bytes.Buffer, width int) error { return writeRows(out, width, []grantRow{row}, false) }, "NAME LIMIT SEES CPUS STATE"},
		{"audit", 58, func(out *bytes.Buffer, width int) error {
			return writeAudit(out, width, auditRows(found, true, figures), nil)
		}, "NAME SEES LIMIT THROTTLED GAIN"},
		{"helpers of audit", 55, func(out *bytes.Buffer, width int) error {
			return writeHelperTable(out, width, busyHelpers(found, figures))
		}, "NAME LIMIT HELPERS SHARE"},
		{"ledger", 50, func(out *bytes.Buffer, width int) error { return report.writeTable(out, width) }, "NAME OWN LOG SHIM RX"},
		{"classify", 50, func(out *bytes.Buffer, width int) error {
			return evaluationTable([]experiment.Evaluation{evaluation}).Write(out, width)
		}, "WORKLOAD CPU GAIN VERDICT"},
	} {
		var wide, narrow bytes.Buffer
		if err := c.write(&wide, 0); err != nil {
			t.Fatal(err)
		}
		if err := c.write(&narrow, c.width); err != nil {
			t.Fatal(err)
		}
		table, note, isShort := strings.Cut(narrow.String(), "Hidden: ")
		if !isShort || !strings.Contains(note, ". Use -o wide for all columns.\n") || strings.Contains(wide.String(), "Hidden: ") {
			t.Errorf("%s: got\n%s\nand with -o wide\n%s", c.name, &narrow, &wide)
		}
		isTitled := false
		for line := range strings.Lines(table) {
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
