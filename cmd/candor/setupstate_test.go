package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
)

// installFake puts programs that print a text in $PATH, which has no other programs then.
func installFake(t *testing.T, programs map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("CANDOR_CONFIG", filepath.Join(dir, "host.json"))
	return dir
}

// machineDir returns a root directory with programs in usr/bin that print a text.
func machineDir(t *testing.T, programs map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"usr/bin", "etc/containerd"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(root, "usr/bin", name), []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestContainerdOf: a containerd in $PATH outside of the usual directories, or that other users can write, does not run.
func TestContainerdOf(t *testing.T) {
	installFake(t, map[string]string{"containerd": "containerd x v2.4.2"})
	if r, _, err := containerdOf(machineDir(t, nil), engine.NRI.File); r != nil || err != nil {
		t.Errorf("containerd in $PATH: %+v, %v", r, err)
	}
	root := machineDir(t, map[string]string{"containerd": "containerd x v1.7.35"})
	if r, release, err := containerdOf(root, engine.NRI.File); err != nil || r.File != engine.NRI.File || release.String() != "1.7" {
		t.Errorf("%+v, %v, %v", r, release, err)
	}
	if err := os.Chmod(filepath.Join(root, "usr/bin/containerd"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := containerdOf(root, engine.NRI.File); err == nil || !strings.Contains(err.Error(), "other users can write") {
		t.Errorf("writable containerd: %v", err)
	}
}

// TestNRIRow: the state of NRI, and what candor setup node does about it, depend on the version of containerd and on its
// configuration.
func TestNRIRow(t *testing.T) {
	const (
		on, off = "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\n", "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = true\n"
		listed  = "disabled_plugins = [\"io.containerd.nri.v1.nri\"]\n"
		imports = "version = 2\nimports = [\"x.toml\"]\n"
	)
	for _, c := range []struct {
		version, config, imported, want string
		action                          nriAction
	}{
		{"v2.4.2", "version = 3\n", "", stateNotNeeded, nriNothing},
		{"v2.4.2", "version = 3\n" + off, "", stateNotDone, nriNote},
		{"1.7.24", "version = 2\n", "", stateNotDone, nriEnable},
		{"1.7.24", "", "", stateNotDone, nriEnable},
		{"1.7.24", "oom_score = 0\n", "", stateNotDone, nriEnable},
		{"1.7.24", on, "", stateNotDone, nriEnable}, // a file of version 1 has other names
		{"1.7.24", "[plugins.nri]\ndisable = false\n", "", stateNotNeeded, nriNothing},
		{"1.7.24", "version = 2\n" + on, "", stateNotNeeded, nriNothing},
		{"1.7.24", "version = 2\n" + off, "", stateNotDone, nriEnable},
		{"1.7.24", "version = 2\n" + listed, "", stateNotDone, nriRefuse},
		{"1.7.24", "version = 2\n" + listed + on, "", stateNotDone, nriRefuse},
		{"1.7.24", imports, on, stateNotNeeded, nriNothing},
		{"1.7.24", imports + on, off, stateNotDone, nriRefuse},
		{"1.7.24", imports + on, listed, stateNotDone, nriRefuse},
		{"1.7.24", "disabled_plugins = [\"cri\"]\n", "", stateNotNeeded, nriNothing},
		{"1.6.20", "version = 2\n", "", stateNotDone, nriNote},
		{"", "", "", stateNotInstalled, nriNothing},
	} {
		programs := map[string]string{"containerd": "containerd x " + c.version}
		if c.version == "" {
			programs = nil
		}
		root := machineDir(t, programs)
		s := nriSetup(t, root, c.config)
		writeFile(t, filepath.Join(root, "etc/containerd/x.toml"), c.imported)
		if state, err := readNRIState(s, root); err != nil || state.row.Setup != "nri" || state.row.State != c.want || state.action != c.action {
			t.Errorf("containerd %q with %q and %q: %+v, %v, want %s, %d", c.version, c.config, c.imported, state, err, c.want, c.action)
		}
		if row := nriRow(s, root); row.State != c.want {
			t.Errorf("containerd %q with %q and %q: %+v, want %s", c.version, c.config, c.imported, row, c.want)
		}
		n := &nodeSetup{root: root}
		needs, err := n.needsNRI(s)
		isRefused := errors.Is(err, engine.ErrBadFile)
		if needs != (c.action == nriEnable) || isRefused != (c.action == nriRefuse) || (len(n.report.Notes) == 1) != (c.action == nriNote) {
			t.Errorf("containerd %q with %q and %q: needs NRI: %v, %v, notes %q", c.version, c.config, c.imported, needs, err, n.report.Notes)
		}
	}
}

// TestNRIRowUnknown: the state is unknown if the configuration or the version cannot be read, and candor setup node fails.
func TestNRIRowUnknown(t *testing.T) {
	for _, c := range []struct {
		version, config string
		isBadFile       bool
	}{
		{"1.7.24", "a = [", true},
		{"1.7.24", "version = 3\n", true},
		{"none", "version = 2\n", false},
	} {
		root := machineDir(t, map[string]string{"containerd": "containerd x " + c.version})
		s := nriSetup(t, root, c.config)
		if row := nriRow(s, root); row.State != stateUnknown {
			t.Errorf("containerd %q with %q: %+v", c.version, c.config, row)
		}
		if needs, err := (&nodeSetup{root: root}).needsNRI(s); needs || err == nil || errors.Is(err, engine.ErrBadFile) != c.isBadFile {
			t.Errorf("containerd %q with %q: needs NRI: %v, %v", c.version, c.config, needs, err)
		}
	}
}

// nriSetup returns the setup of NRI for a containerd with a configuration, below a root directory.
func nriSetup(t *testing.T, root, config string) *engine.Setup {
	t.Helper()
	s := &engine.Setup{Engine: engine.NRI, File: filepath.Join(root, engine.NRI.File), Record: filepath.Join(root, "setup-nri.json")}
	writeFile(t, s.File, config)
	return s
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSetupRows: candor setup lists all setups; on a machine without engines and systemd none is done.
func TestSetupRows(t *testing.T) {
	dir := installFake(t, nil)
	rows := setupRows(dir, &setup.Service{Unit: setup.ServiceUnit, Booted: filepath.Join(dir, "none")})
	var names []string
	for _, r := range rows {
		names = append(names, r.Setup)
	}
	if want := []string{"host", "docker", "podman", "containerd", "nri", "service"}; !slices.Equal(names, want) {
		t.Errorf("setups %v, want %v", names, want)
	}
	if rows[0].State != stateNotDone || rows[5].State != stateNotInstalled {
		t.Errorf("host %+v, service %+v", rows[0], rows[5])
	}
	refusesLine(t, `candor setup: unknown command "no-such-setup"; `, "setup", "no-such-setup")
}

// TestSetupNode: on a machine without engines and systemd there is nothing to do.
func TestSetupNode(t *testing.T) {
	dir := installFake(t, nil)
	for _, undo := range []bool{false, true} {
		n := &nodeSetup{root: dir, service: &setup.Service{Unit: setup.ServiceUnit, Booted: filepath.Join(dir, "none")}, all: plainEngineSetups}
		do := n.apply
		if undo {
			do = n.undo
		}
		if err := do(true); err != nil || len(n.report.Changes) != 0 {
			t.Errorf("undo %v: %+v, %v", undo, n.report, err)
		}
	}
}

// TestSetupNodeService: the service starts if a runtime for it is installed, and the undo stops it.
func TestSetupNodeService(t *testing.T) {
	off := "LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled"
	for _, c := range []struct {
		programs map[string]string
		calls    string
	}{
		{map[string]string{"crio": ""}, "enable start"},
		{nil, ""},
		{map[string]string{"containerd": "containerd x 1.7.24"}, ""}, // with the CRI plugin disabled
	} {
		root := machineDir(t, c.programs)
		writeFile(t, filepath.Join(root, engine.NRI.File), "disabled_plugins = [\"cri\"]\n")
		dir := installFake(t, nil)
		script := "#!/bin/sh\necho $1 >>" + dir + "/calls\n[ $1 = show ] && echo '" + off + "'\nexit 0\n"
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		service := &setup.Service{Unit: setup.ServiceUnit, Systemctl: filepath.Join(dir, "systemctl"), Booted: dir}
		n := &nodeSetup{root: root, service: service}
		if err := n.startService(true); err != nil {
			t.Error(err)
		}
		if err := (&nodeSetup{root: root, service: service}).startService(false); err != nil {
			t.Error(err)
		}
		text, _ := os.ReadFile(dir + "/calls")
		calls := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "show", "")), " ")
		if calls != c.calls || (len(n.report.Changes) == 1) != (c.calls != "") {
			t.Errorf("with %v: calls %q, want %q; dry run %v", c.programs, calls, c.calls, n.report.Changes)
		}
	}
}
