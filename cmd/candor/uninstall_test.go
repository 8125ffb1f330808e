package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
)

// TestUninstallReport: the table has a row for each change, and the notes below it.
func TestUninstallReport(t *testing.T) {
	for _, c := range []struct {
		report changeReport
		want   string
	}{
		{changeReport{DryRun: true}, "Nothing to remove.\n"},
		{changeReport{}, "Nothing to remove.\nThe files in /etc/candor and the program files remain.\n"},
		{changeReport{
			Changes: []changeRow{{"web cpus", "0-1", "0-3"}, {"web quota", "", "200ms per 100ms"}},
			Notes:   []string{"docker: systemctl reload docker"}, DryRun: true,
		}, "WHAT       BEFORE  AFTER\nweb cpus   0-1     0-3\nweb quota  -       200ms per 100ms\nNote: docker: systemctl reload docker.\n"},
	} {
		var out strings.Builder
		if err := (&uninstall{report: c.report, isService: true}).write(&out); err != nil || out.String() != c.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", c.report, err, &out, c.want)
		}
	}
}

// TestChangeReport: a change or a note that a second attempt finds again is listed once.
func TestChangeReport(t *testing.T) {
	var r changeReport
	r.addNote("a")
	r.addNote("a")
	r.addNote("b")
	if !slices.Equal(r.Notes, []string{"a", "b"}) {
		t.Errorf("notes %q", r.Notes)
	}
	r.add("web view", "0-1", "0-3")
	r.add("web view", "0-1", "0-3")
	r.add("log view", "0-1", "0-3")
	if len(r.Changes) != 2 {
		t.Errorf("changes %v", r.Changes)
	}
}

// A uninstallLab is an uninstall on a machine whose service and engines are files in a directory, and whose state has no containers.
type uninstallLab struct {
	*testing.T
	*uninstall
	dir string
}

// newUninstallLab sets up Docker and Podman. The service has a state, such as active, until it is stopped.
func newUninstallLab(t *testing.T, active string) *uninstallLab {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("CANDOR_CONFIG", filepath.Join(dir, "host.json"))
	h, err := host.Open(host.Options{StateDir: filepath.Join(dir, "state"), Cgroup: cgroup.Options{ReadOnly: true, Parent: "/candor-no-such-group"}})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { h.Close() })
	store := state.NewStore(filepath.Join(dir, "state"))
	if err := store.Prepare(); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$1\" >>" + dir + "/calls\ncase $1 in show) cat " + dir + "/show ;;\n" +
		"disable) echo 'LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled' >" + dir + "/show ;; esac\n"
	for name, text := range map[string]string{
		"systemctl-view": strings.ReplaceAll(script, dir+"/show", dir+"/show-view"), "show-view": "LoadState=not-found\n",
		"systemctl": script, "show": "LoadState=loaded\nActiveState=" + active + "\nUnitFileState=enabled\n",
		"daemon.json": "{}\n", "state/lock": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l := &uninstallLab{t, &uninstall{
		machine: &setup.Setup{Host: h, Config: filepath.Join(dir, "host.json")},
		service: &setup.Service{Unit: setup.ServiceUnit, Systemctl: filepath.Join(dir, "systemctl"), Booted: dir},
		refresh: &setup.Service{Unit: setup.ViewUnit, Systemctl: filepath.Join(dir, "systemctl-view"), Booted: dir},
		root:    filepath.Join(dir, "root"), isService: true,
		stateDir: filepath.Join(dir, "state"),
	}, dir}
	l.engines = func() []*engine.Setup {
		docker := &engine.Setup{Engine: engine.Docker, File: filepath.Join(dir, "daemon.json"), Record: engineRecord(engine.Docker)}
		podman := &engine.Setup{Engine: engine.Podman, File: filepath.Join(dir, "candor.conf"), Record: engineRecord(engine.Podman)}
		return []*engine.Setup{docker, podman}
	}
	for _, s := range l.engines() {
		if err := findRuntimes(s, true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// whats returns the first column of the report.
func (l *uninstallLab) whats() (all []string) {
	for _, c := range l.report.Changes {
		all = append(all, strings.ReplaceAll(c.What, l.dir+"/", ""))
	}
	return all
}

// check fails unless the report lists the given changes, and the service and the setups of the engines are undone or not.
func (l *uninstallLab) check(title string, whats []string, isStopped, isDockerDone, isPodmanDone, hasState bool) {
	l.Helper()
	if got := l.whats(); !slices.Equal(got, whats) {
		l.Errorf("%s: the report lists %q, want %q", title, got, whats)
	}
	calls, err := os.ReadFile(filepath.Join(l.dir, "calls"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || strings.Contains(string(calls), "disable") != isStopped {
		l.Errorf("%s: calls of systemctl %q, %v", title, calls, err)
	}
	for i, isDone := range []bool{isDockerDone, isPodmanDone} {
		s := l.engines()[i]
		text, err := os.ReadFile(s.File)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || strings.Contains(string(text), "candor-runc") != isDone {
			l.Errorf("%s: %s is %q, %v", title, s.File, text, err)
		}
	}
	if is := l.machine.Host.IsInUse(); is != hasState {
		l.Errorf("%s: a state exists: %v", title, is)
	}
}

var (
	uninstallSetups = []string{"setup docker daemon.json", "setup podman candor.conf"}
	uninstallState  = []string{"state state"}
)

// TestUninstallRun: the service is stopped, also while it starts or reloads, the setups are undone and the state is removed. A dry
// run reports the same changes and makes none.
func TestUninstallRun(t *testing.T) {
	for _, active := range []string{"active", "activating", "reloading", "inactive"} {
		l := newUninstallLab(t, active)
		want := slices.Concat([]string{"candor-nri.service"}, uninstallSetups, uninstallState)
		if err := l.run(t.Context(), true); err != nil {
			t.Error(err)
		}
		l.check(active+", dry run", want, false, true, true, true)
		planned := l.report
		if err := l.run(t.Context(), false); err != nil {
			t.Error(err)
		}
		l.check(active, want, true, false, false, false)
		if planned.DryRun = false; !reflect.DeepEqual(planned, l.report) {
			t.Errorf("%s: planned %+v\nreported %+v", active, planned, l.report)
		}
		if want := (changeRow{"candor-nri.service", active + ", enabled", "inactive, disabled"}); l.report.Changes[0] != want {
			t.Errorf("%+v, want %+v", l.report.Changes[0], want)
		}
		if err := l.run(t.Context(), false); err != nil || len(l.report.Changes) > 0 {
			t.Errorf("%s, again: %v, %v", active, l.report.Changes, err)
		}
	}
}

// TestUninstallRefresh: the service that refreshes views is stopped too.
func TestUninstallRefresh(t *testing.T) {
	l := newUninstallLab(t, "active")
	if err := os.WriteFile(filepath.Join(l.dir, "show-view"), []byte("LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat([]string{"candor-nri.service", "candor-view.service"}, uninstallSetups, uninstallState)
	for _, dry := range []bool{true, false} {
		if err := l.run(t.Context(), dry); err != nil {
			t.Error(err)
		}
		l.check("refresh", want, !dry, dry, dry, dry)
	}
	if state, err := l.refresh.State(); err != nil || !state.IsOff() {
		t.Errorf("candor-view.service is %v, %v", state, err)
	}
}

// TestUninstallBadFile: an engine's file that cannot be restored prevents all changes. A dry run reports it beside the changes.
func TestUninstallBadFile(t *testing.T) {
	l := newUninstallLab(t, "active")
	file := filepath.Join(l.dir, "daemon.json")
	bad := []byte("{\"runtimes\": \"candor-runc\"")
	if err := os.WriteFile(file, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.run(t.Context(), true); !errors.Is(err, engine.ErrBadFile) || exitCode(uninstallError(err), true) != exitBadInput {
		t.Errorf("dry run: %v", err)
	}
	l.check("dry run", slices.Concat([]string{"candor-nri.service"}, uninstallSetups[1:], uninstallState), false, true, true, true)
	if err := l.run(t.Context(), false); !errors.Is(err, engine.ErrBadFile) || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	l.check("damaged file", nil, false, true, true, true)
}

// TestUninstallLateFailure: an engine's file that is damaged after the first change does not prevent the give-back.
func TestUninstallLateFailure(t *testing.T) {
	l := newUninstallLab(t, "active")
	engines, calls := l.engines, 0
	l.engines = func() []*engine.Setup {
		if calls++; calls == 2 { // after the dry run
			if err := os.WriteFile(filepath.Join(l.dir, "daemon.json"), []byte("{\"runtimes\": \"candor-runc\""), 0o644); err != nil {
				t.Error(err)
			}
		}
		return engines()
	}
	if err := l.run(t.Context(), false); !errors.Is(err, engine.ErrBadFile) {
		t.Errorf("%v", err)
	}
	l.check("late", slices.Concat([]string{"candor-nri.service"}, uninstallSetups[1:], uninstallState), true, true, false, false)
}

// TestUninstallOtherState: the removal of another state than the state of the service changes neither the service nor the setups.
func TestUninstallOtherState(t *testing.T) {
	for _, dry := range []bool{true, false} {
		l := newUninstallLab(t, "active")
		l.isService = false
		if err := l.run(t.Context(), dry); err != nil {
			t.Error(err)
		}
		l.check("other state", uninstallState, false, true, true, dry)
		if calls, err := os.ReadFile(filepath.Join(l.dir, "calls")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("calls of systemctl %q, %v", calls, err)
		}
		if want := l.stateDir + " is not the state directory of candor-nri.service: the service and the setups do not change"; !slices.Equal(l.report.Notes, []string{want}) {
			t.Errorf("notes %q, want %q", l.report.Notes, want)
		}
	}
}

// TestUninstallBesideAgent: an agent outside of the service prevents all changes.
func TestUninstallBesideAgent(t *testing.T) {
	for _, c := range []struct {
		active    string
		isStopped bool // the service is stopped first, because the agent can belong to it
		changes   []string
	}{{"inactive", false, nil}, {"failed", false, nil}, {"activating", true, []string{"candor-nri.service"}}} {
		l := newUninstallLab(t, c.active)
		release, err := l.machine.Host.HoldAgent()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.run(t.Context(), false); !errors.Is(err, host.ErrAgentRuns) {
			t.Errorf("%s: %v", c.active, err)
		}
		l.check(c.active, c.changes, c.isStopped, true, true, true)
		release()
	}
}

// TestUninstallNotes: the report names containers that cannot start again, and a containerd that refuses pods without candor nri.
func TestUninstallNotes(t *testing.T) {
	l := newUninstallLab(t, "active")
	own, err := state.OwnProcess()
	if err != nil {
		t.Fatal(err)
	}
	if err := state.NewStore(l.stateDir).SavePreserved("94f5918bca0c", state.Preserved{CPUs: cpuset.Of(0), By: own}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(l.stateDir, "bundles/94f5918bca0c"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.root = machineDir(t, map[string]string{"containerd": "containerd 2.2.0"})
	config := "version = 3\n[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\nrequired_plugins = ['candor']\n"
	if err := os.WriteFile(filepath.Join(l.root, "etc/containerd/config.toml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.run(t.Context(), true); err != nil {
		t.Error(err)
	}
	want := []string{
		"containerd refuses new pods without candor nri: remove candor from required_plugins in /etc/containerd/config.toml, then systemctl restart containerd",
		"containers of candor-runc cannot start again without this runtime: recreate them with another runtime: 94f5918bca0c",
		"docker: systemctl restart docker (after a reload, it still has the runtimes)",
		"podman: nothing: podman reads it at each start",
	}
	if !slices.Equal(l.report.Notes, want) {
		t.Errorf("notes\n%q, want\n%q", l.report.Notes, want)
	}
}

func TestGiveBackPatience(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lease-break-time")
	for text, want := range map[string]time.Duration{
		"45\n": 100 * time.Second, "0\n": 80 * time.Second, "2\n": 80 * time.Second, "100000\n": 10 * time.Minute,
		"2147483647\n": 10 * time.Minute, "-1\n": 80 * time.Second, "x\n": 80 * time.Second, "99999999999999999999\n": 80 * time.Second,
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := giveBackPatience(file); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := giveBackPatience(file + "-missing"); got != 80*time.Second {
		t.Errorf("without the file: %v", got)
	}
}

func TestIsServiceState(t *testing.T) {
	config := filepath.Join(t.TempDir(), "nri.yaml")
	for _, c := range []struct {
		config, dir string
		want        bool
	}{
		{"", host.SystemStateDir, true},
		{"", host.SystemStateDir + "/", true},
		{"", "/run/other", false},
		{"version: 1\nstateDir: /run/other\n", "/run/other", true},
		{"version: 1\nstateDir: /run/other\n", host.SystemStateDir, false},
		{"version: 9\n", host.SystemStateDir, true},
		{"version: 9\n", "/run/other", false},
	} {
		os.Remove(config)
		if c.config != "" {
			if err := os.WriteFile(config, []byte(c.config), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := isServiceState(c.dir, config); got != c.want {
			t.Errorf("%q, %s: %v", c.config, c.dir, got)
		}
	}
}
