package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetupHost: the command line of candor setup host. Package cmd/candor/internal/setup tests the changes
// themselves, in the guests.
func TestSetupHost(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct{ args, want string }{
		{"--reserved x", "--reserved: "},
		{"--reserved 1023", "the machine does not have"},
		{"--reserved 0-1023", "the machine does not have"},
		{"", "must be a list of the CPUs for everything else on the host"},
		{"--undo --reserved 0", "--undo restores the recorded values"},
		{"all", "takes no arguments"},
		{"-o yaml", "table, json"},
	} {
		got := do(t, l.candor(append([]string{"setup", "host"}, strings.Fields(c.args)...)...))
		if got.code != 2 || got.out != "" || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, c.want) {
			t.Errorf("setup host %s: exit %d, %q, error %q; want 2 and one line with %q", c.args, got.code, got.out, got.err, c.want)
		}
	}
	table := l.ok("setup", "host", "--reserved", "0", "--dry-run")
	// The width of the first column depends on the cgroups of the machine.
	lines := strings.Split(table, "\n")
	first := strings.Fields(lines[1])
	if !strings.HasPrefix(lines[0], "WHERE ") || len(first) != 4 || filepath.Base(first[0]) != "host.json" || first[1] != "reserved" {
		t.Errorf("table\n%s", table)
	}
	var result struct {
		Reserved string
		DryRun   bool
		Changes  []struct{ Kind, At, Before, After string }
	}
	if err := json.Unmarshal([]byte(l.ok("setup", "host", "--reserved", "0", "--dry-run", "-o", "json")), &result); err != nil {
		t.Fatal(err)
	}
	if result.Reserved != "0" || !result.DryRun || len(result.Changes) < 2 || result.Changes[0].After != "0" {
		t.Errorf("result %+v", result)
	}
	if undo := l.ok("setup", "host", "--undo"); !strings.Contains(undo, "nothing to undo") {
		t.Errorf("undo prints %q", undo)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(l.state), "*.json")); len(left) > 0 {
		t.Errorf("a dry run left %v", left)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cpuset" + l.parent + "-others"); err == nil {
		t.Error("a dry run made a group")
	}
}
