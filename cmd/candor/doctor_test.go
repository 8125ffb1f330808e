package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
)

// TestDoctorBadInput: unknown ids and uses are refused in one line that lists the accepted ones.
func TestDoctorBadInput(t *testing.T) {
	for line, want := range map[string]string{
		"doctor --check nri":               `--check "nri": must be one of kernel-version, cpus, `,
		"doctor --check state,nri":         `--check "nri": must be one of `,
		"doctor --for swarm":               `--for "swarm": must be one of run, docker, nri, kubernetes`,
		"doctor -o yaml":                   `--output "yaml": must be one of table, wide, json`,
		"doctor now":                       "the command takes no arguments",
		"doctor --kubeconfig /no/such/kcf": "--kubeconfig: ",
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != exitBadInput || out != "" || !strings.Contains(errOut, want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor %s: code %d, %q, %q", line, code, out, errOut)
		}
	}
}

// TestDoctorSelection: --check selects checks, --for the checks of a use, and the exit code is 1 exactly if a check failed.
func TestDoctorSelection(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("CANDOR_STATE_DIR", t.TempDir()+"/state")
	for line, want := range map[string][]string{
		"--check state":                          {"state"},
		"--check state,cpus --check state-space": {"cpus", "state", "state-space"},
		"--check nri-socket --for run":           {"nri-socket"},
	} {
		code, out, errOut := command(t, "", append(strings.Fields("doctor -o json"), strings.Fields(line)...)...)
		var r doctor.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || errOut != "" {
			t.Fatalf("%s: %v, %q, %q", line, err, out, errOut)
		}
		var ids []string
		for _, row := range r.Checks {
			ids = append(ids, row.ID)
		}
		if !slices.Equal(ids, want) || (code == exitFailure) != (r.Status == doctor.Failed) {
			t.Errorf("%s: %q, code %d, status %s", line, ids, code, r.Status)
		}
	}
}

// TestDoctorInheritedKubeconfig: a bad file of $KUBECONFIG makes one row unknown, and the other checks run.
func TestDoctorInheritedKubeconfig(t *testing.T) {
	t.Setenv("CANDOR_STATE_DIR", t.TempDir()+"/state")
	for name, text := range map[string]string{
		"none": "",
		"exec": "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: none}}}]\n",
	} {
		file := filepath.Join(t.TempDir(), name)
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("KUBECONFIG", file)
		code, out, errOut := command(t, "", "doctor", "-o", "json", "--check", "state,cluster-versions")
		var r doctor.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || errOut != "" || code != 0 || len(r.Checks) != 2 {
			t.Fatalf("%s: code %d, %v, %q, %q", name, code, err, out, errOut)
		}
		if row := r.Checks[1]; row.Status != doctor.Unknown || row.Next == "" || !strings.HasPrefix(row.Found, "$KUBECONFIG: ") {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

// TestDoctorTable: the table has a line for each check, the next steps below it or in a column, and a summary that names the checks
// that could not be read.
func TestDoctorTable(t *testing.T) {
	r := doctor.Report{Status: doctor.Failed, Checks: []doctor.Row{
		{ID: "cpus", Group: "kernel", Status: doctor.OK, Found: "4 CPUs"},
		{ID: "state", Group: "candor", Status: doctor.Unknown, Found: "permission denied", Next: "run candor doctor as root"},
		{ID: "tuned", Group: "other managers", Status: doctor.Warning, Found: "tuned.service runs", Next: "stop it"},
		{ID: "cgroup-version", Group: "cgroups", Status: doctor.Failed, Found: "none", Next: "mount it"},
	}}
	const end = "\n4 checks: 1 ok, 1 warning, 1 failed, 1 could not be read: state; root can read more.\n"
	for form, want := range map[string]string{
		"table": `STATUS   GROUP           CHECK           FOUND
ok       kernel          cpus            4 CPUs
unknown  candor          state           permission denied
warning  other managers  tuned           tuned.service runs
failed   cgroups         cgroup-version  none

Next steps:
  state: run candor doctor as root
  tuned: stop it
  cgroup-version: mount it
`,
		"wide": `STATUS   GROUP           CHECK           FOUND               NEXT STEP
ok       kernel          cpus            4 CPUs              -
unknown  candor          state           permission denied   run candor doctor as root
warning  other managers  tuned           tuned.service runs  stop it
failed   cgroups         cgroup-version  none                mount it
`,
	} {
		var out bytes.Buffer
		if err := writeDoctor(&out, &r, &choice{value: form}); err != nil || out.String() != want+end {
			t.Errorf("-o %s: %v\n%s", form, err, &out)
		}
	}
}
