package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
)

// engineMachine is a root directory with Docker, Podman and containerd 1.7, and the setup of this machine.
type engineMachine struct {
	*testing.T
	root string
}

// newEngineMachine returns a machine with the given configurations; "" stands for a missing file. The service is installed and off.
func newEngineMachine(t *testing.T, docker, podman, containerd string) *engineMachine {
	t.Helper()
	addRuntimeLinks(t)
	installFake(t, map[string]string{"dockerd": "", "podman": ""})
	m := &engineMachine{T: t, root: machineDir(t, map[string]string{"containerd": "containerd x 1.7.24"})}
	for e, text := range map[*engine.Engine]string{&engine.Docker: docker, &engine.Podman: podman, &engine.NRI: containerd} {
		if text != "" {
			writeFile(t, m.root+e.File, text)
		}
	}
	m.systemctl("exit 0")
	return m
}

// systemctl installs a systemctl that runs a command at the start of the service.
func (m *engineMachine) systemctl(start string) {
	m.Helper()
	writeFile(m.T, m.root+"/state", "LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n")
	script := "#!/bin/sh\nPATH=/usr/bin:/bin\ncd " + m.root + "\ncase $1 in\nshow) cat state ;;\nstart) " + start + " ;;\n" +
		"enable) sed -i s/disabled/enabled/ state ;;\ndisable) sed -i s/enabled/disabled/ state ;;\nesac\n"
	if err := os.WriteFile(m.root+"/systemctl", []byte(script), 0o755); err != nil {
		m.Fatal(err)
	}
}

// addRuntimeLinks creates the links candor-runc and candor-flexible-runc beside this program, as an installation does.
func addRuntimeLinks(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"candor-runc", "candor-flexible-runc"} {
		link := filepath.Join(filepath.Dir(self), name)
		if err := os.Symlink(filepath.Base(self), link); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(link) })
	}
}

func (m *engineMachine) newSetup() *nodeSetup {
	return &nodeSetup{
		root:    m.root,
		service: &setup.Service{Unit: setup.ServiceUnit, Systemctl: m.root + "/systemctl", Booted: m.root},
		refresh: &setup.Service{Unit: setup.ViewUnit, Systemctl: m.root + "/systemctl", Booted: m.root},
		all: func() (all []*engine.Setup) {
			for _, e := range []engine.Engine{engine.Docker, engine.Podman, engine.Containerd, engine.NRI} {
				all = append(all, &engine.Setup{Engine: e, File: m.root + e.File, Record: m.root + "/etc/candor/setup-" + e.Name + ".json"})
			}
			return all
		},
	}
}

// files returns the content of all files in etc.
func (m *engineMachine) files() map[string]string {
	m.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(m.root), "etc", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(m.root, path))
		files[path] = string(text)
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
	return files
}

func (m *engineMachine) serviceState() string {
	m.Helper()
	state, err := m.newSetup().service.State()
	if err != nil {
		m.Fatal(err)
	}
	return state.String()
}

// sameFiles fails the test if a file in etc has changed.
func (m *engineMachine) sameFiles(before map[string]string, when string) {
	m.Helper()
	after := m.files()
	for file := range after {
		if _, wasThere := before[file]; !wasThere {
			m.Errorf("%s: %s is new", when, file)
		}
	}
	for file, text := range before {
		if after[file] != text {
			m.Errorf("%s: %s is\n%s\nwant\n%s", when, file, after[file], text)
		}
	}
}

// TestSetupNodeEngines: the setup configures Docker, Podman and containerd 1.7, and starts the service. A second setup changes
// nothing, and the undo restores all files.
func TestSetupNodeEngines(t *testing.T) {
	for name, containerd := range map[string]string{
		"version 2":  "version = 2\n",
		"no version": "oom_score = 0\n",
		"no file":    "",
	} {
		t.Run(name, func(t *testing.T) {
			m := newEngineMachine(t, "{\n  \"debug\": true\n}\n", "", containerd)
			before := m.files()
			dry := m.newSetup()
			if err := dry.apply(true); err != nil || len(dry.report.Changes) != 4 {
				t.Errorf("dry run: %+v, %v", dry.report, err)
			}
			m.sameFiles(before, "dry run")
			done := m.newSetup()
			if err := done.apply(false); err != nil || len(done.report.Changes) != 4 || len(done.report.Notes) != 3 {
				t.Errorf("%+v, %v", done.report, err)
			}
			after := m.files()
			for file, want := range map[string]string{
				engine.Docker.File: `"candor-flexible"`, engine.Podman.File: "[engine.runtimes]", engine.NRI.File: "disable = false",
			} {
				if text := after[strings.TrimPrefix(file, "/")]; !strings.Contains(text, want) {
					t.Errorf("%s is\n%s\nwant %s", file, text, want)
				}
			}
			if got := m.serviceState(); got != "inactive, enabled" { // the stub starts nothing
				t.Errorf("service: %s", got)
			}
			again := m.newSetup()
			if err := again.apply(false); err != nil || len(again.report.Changes) > 1 { // the service
				t.Errorf("second setup: %+v, %v", again.report, err)
			}
			m.sameFiles(after, "second setup")
			dry = m.newSetup()
			if err := dry.undo(true); err != nil || len(dry.report.Changes) != 4 {
				t.Errorf("dry run of the undo: %+v, %v", dry.report, err)
			}
			m.sameFiles(after, "dry run of the undo")
			if err := m.newSetup().undo(false); err != nil {
				t.Error(err)
			}
			m.sameFiles(before, "undo")
		})
	}
}

// TestSetupNodeRefreshNote: on a machine with Docker and without candor nri, a note offers the service of candor view refresh
// until the service is on.
func TestSetupNodeRefreshNote(t *testing.T) {
	m := newEngineMachine(t, "{}", "", "")
	hasNote := func() bool {
		n := m.newSetup()
		if err := n.apply(true); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(n.report.Notes, func(note string) bool { return strings.Contains(note, "candor view refresh --unit") })
	}
	if hasNote() {
		t.Error("a note beside containerd, whose plugin refreshes the views")
	}
	if err := os.Remove(filepath.Join(m.root, "usr/bin/containerd")); err != nil {
		t.Fatal(err)
	}
	if !hasNote() {
		t.Error("no note")
	}
	for state, want := range map[string]bool{
		"LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n":       false,
		"LoadState=loaded\nActiveState=inactive\nUnitFileState=enabled\n":     false,
		"LoadState=not-found\nActiveState=inactive\nUnitFileState=disabled\n": true,
	} {
		writeFile(t, m.root+"/state", state)
		if hasNote() != want {
			t.Errorf("services are %q: note %t", state, !want)
		}
	}
}

// TestSetupNodeForeignRecord: a damaged record of an engine that the command does not set up changes nothing.
func TestSetupNodeForeignRecord(t *testing.T) {
	m := newEngineMachine(t, "{}", "", "version = 2\n")
	writeFile(t, m.root+"/etc/candor/setup-"+engine.Containerd.Name+".json", "{")
	n := m.newSetup()
	if err := n.apply(false); err != nil || len(n.report.Changes) != 4 {
		t.Errorf("%+v, %v", n.report, err)
	}
}

// TestSetupNodeRefused: if one of the files is invalid, the setup and the undo change no file and do not change the service.
func TestSetupNodeRefused(t *testing.T) {
	for name, c := range map[string]struct{ docker, podman, containerd, want string }{
		"Docker":     {"{", "", "version = 2\n", "not a JSON object"},
		"Podman":     {"{}", "a = [", "version = 2\n", "not TOML"},
		"containerd": {"{}", "", "version = 2\n[plugins.\"io.containerd.nri.v1.nri\"]\n", "no disable"},
		"disabled":   {"{}", "", "version = 2\ndisabled_plugins = [\"io.containerd.nri.v1.nri\"]\n", "has NRI in disabled_plugins"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newEngineMachine(t, c.docker, c.podman, c.containerd)
			before := m.files()
			for _, dry := range []bool{true, false} {
				n := m.newSetup()
				err := n.apply(dry)
				if !errors.Is(err, engine.ErrBadFile) || !strings.Contains(err.Error(), c.want) || len(n.report.Changes) != 0 {
					t.Errorf("dry run %v: %+v, %v, want %q", dry, n.report, err, c.want)
				}
			}
			m.sameFiles(before, "setup")
			if got := m.serviceState(); got != "inactive, disabled" {
				t.Errorf("service: %s", got)
			}
		})
	}
	t.Run("undo", func(t *testing.T) {
		m := newEngineMachine(t, "{}", "", "version = 2\n")
		if err := m.newSetup().apply(false); err != nil {
			t.Fatal(err)
		}
		writeFile(t, m.root+engine.Docker.File, "{") // the last file of the undo
		before := m.files()
		n := m.newSetup()
		if err := n.undo(false); !errors.Is(err, engine.ErrBadFile) || len(n.report.Changes) != 0 {
			t.Errorf("%+v, %v", n.report, err)
		}
		m.sameFiles(before, "undo")
		if got := m.serviceState(); got != "inactive, enabled" {
			t.Errorf("service: %s", got)
		}
	})
}

// TestSetupNodeLateFailure: if a step fails after others have changed the machine, the report has the changes, and a note names the rest.
// The next call does the rest.
func TestSetupNodeLateFailure(t *testing.T) {
	m := newEngineMachine(t, "{}", "", "version = 2\n")
	if err := os.Mkdir(m.root+"/etc/containers", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("none", m.root+"/etc/containers/containers.conf.d"); err != nil { // only the write fails
		t.Fatal(err)
	}
	n := m.newSetup()
	err := n.apply(false)
	if err == nil || len(n.report.Changes) != 1 || !strings.HasPrefix(n.report.Changes[0].What, "setup docker ") {
		t.Errorf("%+v, %v", n.report, err)
	}
	want := "not done: setup podman, setup nri, candor-nri.service; correct the error and repeat the command"
	if notes := n.report.Notes; len(notes) != 2 || notes[1] != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
	if err := os.Remove(m.root + "/etc/containers/containers.conf.d"); err != nil {
		t.Fatal(err)
	}
	if got := m.serviceState(); got != "inactive, disabled" {
		t.Errorf("service: %s", got)
	}
	m.systemctl("echo no >&2; exit 1")
	n = m.newSetup()
	err = n.apply(false)
	if err == nil || len(n.report.Changes) != 3 || n.report.Changes[2] != (changeRow{setup.ServiceUnit, "inactive, disabled", "inactive, enabled"}) {
		t.Errorf("service: %+v, %v", n.report, err)
	}
	m.systemctl("exit 0")
	n = m.newSetup()
	if err := n.apply(false); err != nil || len(n.report.Changes) != 1 {
		t.Errorf("%+v, %v", n.report, err)
	}
}

// TestSetupDone: candor setup lists a setup as done after it was done, and no longer after its undo.
func TestSetupDone(t *testing.T) {
	m := newEngineMachine(t, "{}", "", "version = 2\n")
	t.Setenv("CANDOR_CONFIG", m.root+"/etc/candor/host.json")
	states := func() map[string]setupRow {
		t.Helper()
		code, out, errOut := command(t, "", "setup", "-o", "json")
		var rows []setupRow
		if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 || errOut != "" {
			t.Fatalf("exit code %d, %s %v", code, errOut, err)
		}
		all := map[string]setupRow{}
		for _, r := range rows {
			all[r.Setup] = r
		}
		return all
	}
	all := m.newSetup().all()
	for _, s := range all {
		if err := findRuntimes(s, false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		if got, want := states()[s.Engine.Name], (setupRow{s.Engine.Name, stateDone, s.File}); got != want {
			t.Errorf("after the setup: %+v, want %+v", got, want)
		}
	}
	if code, out, _ := command(t, "", "setup"); code != 0 || !regexp.MustCompile(`(?m)^docker +done +`+regexp.QuoteMeta(all[0].File)+`$`).MatchString(out) {
		t.Errorf("exit code %d, the table is\n%s", code, out)
	}
	for _, s := range slices.Backward(all) {
		if _, err := s.Undo(false); err != nil {
			t.Fatal(err)
		}
		if got := states()[s.Engine.Name]; got.State == stateDone {
			t.Errorf("after the undo: %+v", got)
		}
	}
}
