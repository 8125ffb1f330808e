package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// TestPlanSVGUntilBadLine: a bad line is an error with its number. The SVG shows the operations before it.
func TestPlanSVGUntilBadLine(t *testing.T) {
	const web = `{"op":"allocate","id":"web","cpu":"1500m"}` + "\n"
	_, want, _ := command(t, web, "plan", "--machine", "core:4", "-o", "svg")
	code, out, errOut := command(t, web+"nonsense\n", "plan", "--machine", "core:4", "-o", "svg")
	if code != 2 || out != want || !strings.HasPrefix(errOut, "candor plan: standard input: line 2: ") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("code %d, a picture of %d bytes (want %d), %q", code, len(out), len(want), errOut)
	}
}

// TestReservedCPUMissing: --reserved with a CPU that the machine does not have is an error.
func TestReservedCPUMissing(t *testing.T) {
	code, out, errOut := command(t, "", "plan", "--machine", "core:4", "--reserved", "0,900")
	if want := "candor plan: --reserved 0,900: the machine does not have CPU 900; use CPUs of 0-3\n"; code != 2 || out != "" || errOut != want {
		t.Errorf("code %d, %q, %q; want %q", code, out, errOut, want)
	}
}

// TestExplainRefusal: with --explain, the JSON of a refusal has an explanation.
func TestExplainRefusal(t *testing.T) {
	code, out, _ := command(t, `{"op":"allocate","id":"web","cpu":"5"}`, "plan", "--machine", "core:4", "-o", "json", "--explain")
	if want := `"explain":[{"kind":"no-time","cpus":"","text":"needs 5 CPUs, 4 of 4 CPUs are left`; code != 0 || !strings.Contains(out, want) {
		t.Errorf("code %d, %s; want %s", code, out, want)
	}
}

// TestPlanWithinParentGroup: a plan for this machine uses only the CPUs of the parent group, from the flag or
// the environment. A plan for another machine ignores the parent group.
func TestPlanWithinParentGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	base := fmt.Sprintf("/candor-plan-test-%d", os.Getpid())
	tree, err := cgroup.Open(cgroup.Options{Parent: base, Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := tree.Effective()
	if err != nil || all.Count() < 2 {
		t.Skipf("needs two CPUs, has %v (%v)", all, err)
	}
	slice := tree.Group("m.slice")
	if err := slice.Create(cgroup.Settings{CPUs: cpuset.Of(all.Last())}, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := slice.Remove(); err != nil {
			t.Error(err)
		}
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	}()
	plan := func(args ...string) (int, string, string) {
		return command(t, `{"op":"allocate","id":"web","cpu":"1"}`, append([]string{"plan", "-o", "json"}, args...)...)
	}
	want := fmt.Sprintf(`"grant":{"cpus":"%d",`, all.Last())
	parent := base + "/m.slice/candor"
	if code, out, errOut := plan("--cgroup-parent", parent); code != 0 || !strings.Contains(out, want) {
		t.Errorf("by the flag: code %d, %s%s; want %s", code, out, errOut, want)
	}
	t.Setenv("CANDOR_CGROUP_PARENT", parent)
	if code, out, errOut := plan(); code != 0 || !strings.Contains(out, want) {
		t.Errorf("by the environment: code %d, %s%s; want %s", code, out, errOut, want)
	}
	if code, out, errOut := plan("--machine", "core:4"); code != 0 || !strings.Contains(out, `"grant":{"cpus":"0",`) {
		t.Errorf("another machine: code %d, %s%s", code, out, errOut)
	}
	t.Setenv("CANDOR_CGROUP_PARENT", "nowhere/..")
	if code, out, errOut := plan(); code != 2 || out != "" || strings.Count(errOut, "\n") != 1 {
		t.Errorf("a bad parent: code %d, %s%s", code, out, errOut)
	}
}

// TestPlanWithAllCPUsIsolated: if isolcpus isolates all CPUs of a machine, the error reports this and the
// remedy.
func TestPlanWithAllCPUsIsolated(t *testing.T) {
	_, machine, _ := command(t, "", "topology", "--machine", "core:2", "-o", "json")
	file := filepath.Join(t.TempDir(), "machine.json")
	text := strings.Replace(machine, `"isolated": ""`, `"isolated": "0-1"`, 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "", "plan", "--machine", file, "-o", "json")
	want := "candor plan: no CPU to give: isolcpus isolates CPUs 0-1, and the machine has no other CPUs; boot with fewer isolated CPUs, or set useIsolated\n"
	if code != 2 || out != "" || errOut != want {
		t.Errorf("code %d, %q, %q; want %q", code, out, errOut, want)
	}
}
