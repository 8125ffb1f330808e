package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
)

// removalLab sets the environment for candor internal-removal without a state, and returns the state directory.
func removalLab(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("CANDOR_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("CANDOR_CONFIG", filepath.Join(dir, "host.json"))
	t.Setenv("CANDOR_CGROUP_PARENT", "/candor-test-removal")
	t.Setenv("CANDOR_CGROUP_DRIVER", string(cgroup.Cgroupfs))
	return filepath.Join(dir, "state")
}

// useState creates an empty state. The test needs the right to create cgroups, but creates none.
func useState(t *testing.T, dir string) {
	t.Helper()
	openRemovalHost(t, dir).Close()
	store := state.NewStore(dir)
	if err := store.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.LockFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// openRemovalHost opens the machine as candor internal-removal does.
func openRemovalHost(t *testing.T, dir string) *host.Host {
	t.Helper()
	h, err := host.Open(host.Options{StateDir: dir, Cgroup: cgroup.Options{Parent: "/candor-test-removal", Driver: cgroup.Cgroupfs}})
	if err != nil {
		t.Skipf("needs root and writable cgroups: %v", err)
	}
	return h
}

// TestRemovalWithoutState: on a machine without a state, nothing is left to do, also if no cgroups can be created as in the build of
// an image. The setup of an engine is undone.
func TestRemovalWithoutState(t *testing.T) {
	for _, driver := range []cgroup.Driver{cgroup.Cgroupfs, "none"} {
		stateDir := removalLab(t)
		if driver == "none" {
			t.Setenv("CANDOR_CGROUP_PARENT", "not/absolute/..")
		}
		if code, out, errOut := command(t, "", "internal-removal"); code != 0 || out != "" || errOut != "" {
			t.Errorf("%s: exit %d, %q, %q", driver, code, out, errOut)
		}
		file := filepath.Join(filepath.Dir(stateDir), "daemon.json")
		if err := os.WriteFile(file, []byte("{}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s := &engine.Setup{Engine: engine.Docker, File: file, Record: engineRecord(engine.Docker)}
		if err := findRuntimes(s, true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		code, out, errOut := command(t, "", "internal-removal")
		if code != 0 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, "undid setup docker in "+file) {
			t.Errorf("%s: exit %d, %q, %q", driver, code, out, errOut)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "{}\n" {
			t.Errorf("%s: the file of Docker is %q, %v", driver, text, err)
		}
	}
}

// TestRemovalInUse: with a state, the packages must call candor uninstall.
func TestRemovalInUse(t *testing.T) {
	useState(t, removalLab(t))
	if code, out, errOut := command(t, "", "internal-removal"); code != 0 || out != "uninstall\n" || errOut != "" {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	t.Setenv("CANDOR_CGROUP_PARENT", "not/absolute/..")
	if code, out, errOut := command(t, "", "internal-removal"); code == 0 || out != "" || strings.Count(errOut, "\n") != 1 {
		t.Errorf("without cgroups: exit %d, %q, %q", code, out, errOut)
	}
}

// TestRemovalRefused: a running container of candor-runc prevents the removal, with a line that names the container.
func TestRemovalRefused(t *testing.T) {
	dir := removalLab(t)
	useState(t, dir)
	own, err := state.OwnProcess()
	if err != nil {
		t.Fatal(err)
	}
	store := state.NewStore(dir)
	if err := store.SavePreserved("94f5918bca0c", state.Preserved{CPUs: cpuset.Of(0), By: own}); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(dir, "bundles/94f5918bca0c")
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "", "internal-removal")
	if want := "running containers: 94f5918bca0c; remove these containers first\n"; code != exitFailure || out != "" ||
		strings.Count(errOut, "\n") != 1 || !strings.HasSuffix(errOut, want) {
		t.Errorf("exit %d, %q, %q; want %q", code, out, errOut, want)
	}
	if err := os.Remove(bundle); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := command(t, "", "internal-removal"); code != 0 || out != "uninstall\n" {
		t.Errorf("after its end: exit %d, %q, %q", code, out, errOut)
	}
}

// TestRemovalBesideAgent: the containers of an agent that is not of the service, such as in a pod of the chart, keep their CPUs.
func TestRemovalBesideAgent(t *testing.T) {
	dir := removalLab(t)
	useState(t, dir)
	h := openRemovalHost(t, dir)
	defer h.Close()
	release, err := h.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if code, out, errOut := command(t, "", "internal-removal"); code != 0 || out != "" || !strings.Contains(errOut, "another candor nri manages this machine") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
}

// TestRemovalStateDir: the state directory is stateDir in the configuration of candor nri. If the file is invalid, the removal is
// refused with a line, and the setup of an engine remains.
func TestRemovalStateDir(t *testing.T) {
	other := removalLab(t)
	useState(t, other)
	t.Setenv("CANDOR_STATE_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	dir := filepath.Dir(other)
	config := filepath.Join(dir, "nri.yaml")
	s := &engine.Setup{Engine: engine.Docker, File: filepath.Join(dir, "daemon.json"), Record: engineRecord(engine.Docker)}
	if err := findRuntimes(s, true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(false); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"version: 1\nstateDir: " + other + "\n": "uninstall\n",
		"version: 9\n":                          "",
	} {
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errOut strings.Builder
		cmd := &cobra.Command{}
		machine := addHostFlags(cmd)
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		err := runRemoval(cmd, machine, config)
		if (err == nil) != (want != "") || out.String() != want || errOut.String() != "" {
			t.Errorf("%q: %v, %q, %q", text, err, &out, &errOut)
		}
		if want == "" && (exitCode(err, true) != exitBadInput || !strings.Contains(errorLine(err), config)) {
			t.Errorf("%q: exit %d, %v", text, exitCode(err, true), err)
		}
		if isDone, err := s.IsDone(); err != nil || !isDone {
			t.Errorf("%q: the setup of Docker is done: %v, %v", text, isDone, err)
		}
	}
}

func TestShownNames(t *testing.T) {
	for _, c := range []struct {
		ids  []string
		want string
	}{
		{[]string{"a"}, "a"},
		{[]string{"a", "b", "c", "d", "e"}, "a, b, c, d, e"},
		{[]string{"a", "b", "c", "d", "e", "f", "g"}, "a, b, c, d, e, 2 more"},
	} {
		if got := shownNames(new(host.Snapshot), c.ids, 5); got != c.want {
			t.Errorf("%q: %q, want %q", c.ids, got, c.want)
		}
	}
}

func TestIsChroot(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		first string
		want  bool
	}{{dir, false}, {filepath.Dir(dir), true}, {filepath.Join(dir, "missing"), true}} {
		if got := isChroot(c.first, dir); got != c.want {
			t.Errorf("isChroot(%q): %v, want %v", c.first, got, c.want)
		}
	}
}
