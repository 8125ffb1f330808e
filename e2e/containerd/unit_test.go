package containerd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/deploy"
)

// startUnit starts the plugin with the capabilities, the umask and the memory limit of the systemd unit. The
// unit's file systems and system call filter need systemd: TestUnit of e2e runs the unit itself in a guest.
func (l *lab) startUnit(more ...string) {
	l.Helper()
	capabilities := []string{"-all"}
	for name := range strings.FieldsSeq(l.unitLine("CapabilityBoundingSet")) {
		capabilities = append(capabilities, "+"+strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	if l.unitLine("NoNewPrivileges") != "yes" {
		l.Fatal("the unit does not set NoNewPrivileges")
	}
	args := []string{"--bounding-set", strings.Join(capabilities, ","), "--inh-caps", "-all", "--no-new-privs",
		"env", l.unitLine("Environment"), "sh", "-c", "umask " + l.unitLine("UMask") + ` && exec "$@"`, "sh", l.candor}
	l.startPluginBy("setpriv", append(append(args, l.pluginArgs()...), more...)...)
}

// unitLine returns the value of a line of the unit.
func (l *lab) unitLine(key string) string {
	l.Helper()
	_, after, found := strings.Cut(deploy.Unit, "\n"+key+"=")
	if !found {
		l.Fatalf("the unit has no %s", key)
	}
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// TestUnitsRights: the rights of the unit are sufficient for the plugin, and other users can read the state
// and the views.
func TestUnitsRights(t *testing.T) {
	l := newEngine(t, failClosed)
	l.startUnit("--metrics", "127.0.0.1:0")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.plugin.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"CapPrm:\t0000000000080020\n", "CapEff:\t0000000000080020\n", "CapBnd:\t0000000000080020\n", "NoNewPrivs:\t1\n"} { // KILL, SYS_PTRACE
		if !strings.Contains(string(status), line) {
			t.Errorf("the plugin does not run with the rights of the unit: no %q in\n%s", line, status)
		}
	}
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	if all := log.cpus(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	web := must[*container](t)(must[*pod](t)(l.newPod(1000, 1000, sensitivePod)).run("web", 1000, 1000, true))
	web.sees()
	has, left := web.cpus(), log.cpus()
	if has.Overlaps(&left) {
		t.Errorf("web has %v, log %v", has, left)
	}
	l.tellsOthers()
	l.newProber(l.plugin.output()).wants(of("candor_container_view_mismatch", web, "sensitive"), 0)
	l.checkModes()
	if output := l.plugin.output(); strings.Contains(output, "level=ERROR") || !strings.Contains(output, "required_plugins=active") {
		t.Errorf("the plugin logs an error, or cannot read the configuration of the runtime:\n%s", output)
	}
}

// checkModes checks that all users can read the state and the views, and that only root can write to them.
func (l *lab) checkModes() {
	l.Helper()
	views := 0
	err := filepath.WalkDir(l.path("candor"), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		switch {
		case d.IsDir():
			want = 0o755
		case d.Name() == "lock", d.Name() == "agent": // a user that can open the file can hold the lock
			want = 0o600
		case d.Name() == "online":
			views++
		}
		if info.Mode().Perm() != want {
			l.Errorf("%s has the mode %v, want %v", file, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || views == 0 {
		l.Errorf("%d views: %v", views, err)
	}
}
