package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/cmd/candor/internal/support"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// TestSupport: the archive of this machine has the log, and candor plan accepts its topology and its operations.
func TestSupport(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CANDOR_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("CANDOR_CONFIG", filepath.Join(dir, "host.json"))
	log, archive := filepath.Join(dir, "log"), filepath.Join(dir, "a.tar.gz")
	if err := os.WriteFile(log, []byte("time=2026-11-27T14:00:00Z level=INFO msg=planned container=planted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "", "support", "--file", archive, "--log", log, "--anonymize")
	if code != 0 || errOut != "" || !strings.HasPrefix(out, "Wrote "+archive+".\n") || strings.Contains(out, "Missing: topology.json") || strings.Contains(out, "Missing: nri.log") {
		t.Fatalf("code %d, %q, %q", code, out, errOut)
	}
	info, err := os.Stat(archive)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := exec.Command("tar", "xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	in := func(name string) string { return filepath.Join(dir, "candor-support", name) }
	if text, err := os.ReadFile(in("nri.log")); err != nil || !regexp.MustCompile(` level=INFO msg=planned container=name-\d+\n$`).Match(text) {
		t.Errorf("%v: %q", err, text)
	}
	if code, out, errOut := command(t, "", "plan", "--machine", in("topology.json"), in("plan.jsonl")); code != 0 || errOut != "" {
		t.Errorf("candor plan: code %d, %q, %q", code, out, errOut)
	}

	for line, want := range map[string]string{
		"support --file " + archive:             "--file " + archive + ": it exists: must be a new file\n",
		"support --file " + dir + "/no/archive": "--file: open ",
		"support --log " + dir + "/none":        "--log: open ",
		"support now":                           "the command takes no arguments",
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != exitBadInput || out != "" || !strings.Contains(errOut, want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
	if again, err := os.Stat(archive); err != nil || again.Size() != info.Size() {
		t.Errorf("the refused command changed the archive: %v, %v", again, err)
	}
}

// TestSupportReplay: on another machine, the command in an archive gives each container the CPUs that it has on the node. The node has
// reserved CPUs, CPUs of isolcpus=, and a parent cgroup without some of the CPUs.
func TestSupportReplay(t *testing.T) {
	for name, c := range map[string]struct {
		options hybrid.Options
		isOther bool // without the options of the node, the containers get other CPUs
	}{
		"whole machine":   {hybrid.Options{}, false},
		"reserved CPUs":   {hybrid.Options{Reserved: cpuset.Range(0, 1), MinShared: 500}, true},
		"parent's cpuset": {hybrid.Options{Usable: cpuset.Range(5, 13)}, true},
		"isolated CPUs":   {hybrid.Options{Usable: cpuset.Range(0, 9), UseIsolated: true, Reserved: cpuset.Of(1)}, true},
		"paper":           {hybrid.Options{Algorithm: hybrid.Paper, Reserved: cpuset.Of(2)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			machine, err := topology.Parse("core:8 pu:2")
			if err != nil {
				t.Fatal(err)
			}
			machine.Isolated = cpuset.Range(4, 5)
			node, err := hybrid.NewNode(machine, c.options)
			if err != nil {
				t.Fatal(err)
			}
			saved := new(state.Saved)
			for _, r := range []hybrid.Request{
				{ID: "web", Limit: 3500, Class: hybrid.Sensitive},
				{ID: "log", Limit: 2000, Class: hybrid.Flexible, Guarantee: 250},
				{ID: "db", Limit: 1300, Class: hybrid.Sensitive},
				{ID: "batch", Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee},
			} {
				plan, err := node.Plan(r)
				if err == nil {
					err = node.Commit(plan)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, g := range node.Grants() {
				saved.Grants = append(saved.Grants, &state.Grant{Grant: g, State: state.Running})
			}
			contents := &support.Contents{
				Topology: machine, State: saved, Map: cpumap.FromNode(node).Document(),
				Options: &host.NodeOptions{
					Reserved: c.options.Reserved, MinShared: host.Amount(c.options.MinShared), Algorithm: c.options.Algorithm, UseIsolated: c.options.UseIsolated,
				},
			}
			t.Chdir(unpackArchive(t, contents))
			text, err := os.ReadFile("index.json")
			if err != nil {
				t.Fatal(err)
			}
			var index struct{ Replay string }
			if err := json.Unmarshal(text, &index); err != nil {
				t.Fatal(err)
			}
			if got, want := replayed(t, index.Replay), grantedCPUs(node); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got\n%v\nwant\n%v", index.Replay, got, want)
			}
			if got := replayed(t, "candor plan --machine topology.json plan.jsonl"); reflect.DeepEqual(got, grantedCPUs(node)) == c.isOther {
				t.Errorf("without options: %v", got)
			}
		})
	}
}

// unpackArchive writes an archive, unpacks it, and returns the directory with its files.
func unpackArchive(t *testing.T, c *support.Contents) string {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "a.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := support.Write(file, c, false); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("tar", "xzf", file.Name(), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return filepath.Join(dir, support.Folder)
}

// replayedGrant is the grant of a container in the output of candor plan.
type replayedGrant struct {
	CPUs      string         `json:"cpus"`
	Exclusive string         `json:"exclusive"`
	Fractions map[string]int `json:"fractionsMilli"`
}

// replayed runs the command in the present directory, and returns the grants after the last operation.
func replayed(t *testing.T, line string) map[string]replayedGrant {
	t.Helper()
	args := strings.Fields(strings.TrimPrefix(line, "candor "))
	code, out, errOut := command(t, "", append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("%s: exit code %d, %s", line, code, errOut)
	}
	grants := map[string]replayedGrant{}
	for text := range strings.Lines(out) {
		var result struct {
			ID      string
			Grant   *replayedGrant
			Changes []struct {
				ID string
				replayedGrant
			}
		}
		if err := json.Unmarshal([]byte(text), &result); err != nil || result.Grant == nil {
			t.Fatalf("%s: %v: %s", line, err, text)
		}
		grants[result.ID] = *result.Grant
		for _, c := range result.Changes {
			grants[c.ID] = c.replayedGrant
		}
	}
	return grants
}

// grantedCPUs returns the grants of a node, as candor plan writes them.
func grantedCPUs(node *hybrid.Node) map[string]replayedGrant {
	grants := map[string]replayedGrant{}
	for _, g := range node.Grants() {
		r := replayedGrant{CPUs: g.CPUs.String(), Exclusive: g.Exclusive.String()}
		if g.Class == hybrid.Sensitive {
			r.Fractions = map[string]int{}
		}
		for _, f := range g.Fractions {
			r.Fractions[strconv.Itoa(f.CPU)] = int(f.Milli)
		}
		grants[g.ID] = r
	}
	return grants
}
