package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/host"
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
		if err := (&uninstall{report: c.report}).write(&out); err != nil || out.String() != c.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", c.report, err, &out, c.want)
		}
	}
}

// TestChangeReport: a change that a second attempt finds again is listed once.
func TestChangeReport(t *testing.T) {
	var r changeReport
	r.add("web view", "0-1", "0-3")
	r.add("web view", "0-1", "0-3")
	r.add("log view", "0-1", "0-3")
	if len(r.Changes) != 2 {
		t.Errorf("changes %v", r.Changes)
	}
}

// TestUninstallService: the service is stopped first, and not in a dry run.
func TestUninstallService(t *testing.T) {
	dir := t.TempDir()
	systemctl := filepath.Join(dir, "systemctl")
	script := "#!/bin/sh\necho $1 >>" + dir + "/calls\nif [ -e " + dir + "/off ]; then echo ActiveState=inactive; echo UnitFileState=disabled\n" +
		"else echo ActiveState=active; echo UnitFileState=enabled; fi\necho LoadState=loaded\n[ $1 = disable ] && touch " + dir + "/off\nexit 0\n"
	if err := os.WriteFile(systemctl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(host.Options{StateDir: filepath.Join(dir, "state"), Cgroup: cgroup.Options{ReadOnly: true}})
	if err != nil {
		t.Skip(err)
	}
	defer h.Close()
	want := []changeRow{{"candor-nri.service", "active, enabled", "inactive, disabled"}}
	for _, dry := range []bool{true, false} {
		u := &uninstall{machine: &setup.Setup{Host: h}, service: &setup.Service{Unit: setup.ServiceUnit, Systemctl: systemctl, Booted: dir}}
		if err := u.stopService(dry); err != nil || len(u.report.Changes) != 1 || u.report.Changes[0] != want[0] {
			t.Errorf("dry run %v: %v, %v", dry, u.report.Changes, err)
		}
		calls, _ := os.ReadFile(dir + "/calls")
		if strings.Contains(string(calls), "disable") == dry {
			t.Errorf("dry run %v: calls %q", dry, calls)
		}
	}
	u := &uninstall{machine: &setup.Setup{Host: h}, service: &setup.Service{Unit: setup.ServiceUnit, Systemctl: systemctl, Booted: dir}}
	if err := u.stopService(false); err != nil || len(u.report.Changes) != 0 {
		t.Errorf("stopped already: %v, %v", u.report.Changes, err)
	}
}
