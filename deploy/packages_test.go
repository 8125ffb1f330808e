package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/engine/nri"
)

// A scriptRun is a call of a script of the packages on a machine.
type scriptRun struct {
	root      string // root directory for the files that the script checks; default: an empty directory
	noSystemd bool
	removal   string // output of candor internal-removal
	failing   string // program, or first argument of a program, that fails with a line
}

// run runs a script and returns the calls of systemctl and candor.
func (r scriptRun) run(t *testing.T, name string, args ...string) (calls []string, output string, err error) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	if r.root == "" {
		r.root = t.TempDir()
	}
	stub := func(program string) {
		t.Helper()
		text := "#!/bin/sh\necho " + program + " \"$@\" >>" + log + "\n"
		text += "case '" + r.failing + "' in " + program + " | $1) echo " + r.failing + " failed >&2; exit 1 ;; esac\n"
		text += "[ \"$1\" != internal-removal ] || echo '" + r.removal + "'\n"
		writeFile(t, filepath.Join(dir, program), text, 0o755)
	}
	stub("systemctl")
	stub("candor")
	running := filepath.Join(dir, "no-systemd")
	if !r.noSystemd {
		running = dir
	}
	text := strings.NewReplacer("/run/systemd/system", running, "/usr/bin/candor", dir+"/candor", "${DPKG_ROOT:-}/etc", r.root+"/etc", "${DPKG_ROOT:-}/usr", r.root+"/usr", "${DPKG_ROOT:-}$file", r.root+"$file").
		Replace(readFile(t, filepath.Join("packages", name)))
	writeFile(t, filepath.Join(dir, name), text, 0o755)
	cmd := exec.Command("sh", append([]string{filepath.Join(dir, name)}, args...)...)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if logged, readErr := os.ReadFile(log); readErr == nil {
		calls = strings.Split(strings.TrimSuffix(string(logged), "\n"), "\n")
	}
	return calls, string(out), err
}

// Calls of the scripts.
const (
	callReload    = "systemctl daemon-reload"
	callRestart   = "systemctl try-restart candor-nri.service"
	callDisable   = "systemctl disable --now candor-nri.service"
	callRemoval   = "candor internal-removal"
	callUninstall = "candor uninstall"

	callViewRestart = "systemctl try-restart candor-view.service"
	callViewDisable = "systemctl disable --now candor-view.service"
)

// TestPackageScripts: an installation enables and starts nothing, an upgrade restarts a running service, and a removal gives the
// containers their CPUs back. Debian passes words, RPM the number of versions that remain.
func TestPackageScripts(t *testing.T) {
	for line, want := range map[string][]string{
		"postinst configure":       {callReload},
		"postinst configure 0.1.0": {callReload, callRestart},
		"postinst abort-remove":    {callReload},
		"postinst 1":               {callReload},
		"postinst 2":               {callReload, callRestart},
		"preinst install":          nil,
		"preinst upgrade 0.1.0":    nil,
		"preinst 1":                nil,
		"prerm upgrade 0.2.0":      nil,
		"prerm 1":                  nil,
		"prerm remove":             {callRemoval, callUninstall, callDisable},
		"prerm 0":                  {callRemoval, callUninstall, callDisable},
		"postrm remove":            {callReload},
		"postrm upgrade 0.2.0":     {callReload},
		"postrm 0":                 {callReload},
	} {
		args := strings.Fields(line)
		check := func(r scriptRun, want []string) {
			t.Helper()
			calls, out, err := r.run(t, args[0], args[1:]...)
			if err != nil || out != "" || !slices.Equal(calls, want) {
				t.Errorf("%s, %+v: %q, %v, %q; want %q", line, r, calls, err, out, want)
			}
			for _, call := range calls {
				if strings.Contains(call, " enable ") || strings.Contains(call, " start ") {
					t.Errorf("%s calls %s", line, call)
				}
			}
		}
		without := func(omitted func(call string) bool) []string { return slices.DeleteFunc(slices.Clone(want), omitted) }
		check(scriptRun{removal: "uninstall"}, want)
		check(scriptRun{}, without(func(call string) bool { return call == callUninstall })) // Candor is not in use
		check(scriptRun{removal: "uninstall", noSystemd: true}, without(func(call string) bool { return strings.HasPrefix(call, "systemctl") }))
	}
}

// TestPackageFailures: a removal stops before its first change if candor refuses it. A failing systemctl fails no script, because
// the package would then be half configured, or could not be removed.
func TestPackageFailures(t *testing.T) {
	for _, c := range []struct {
		line, failing string
		calls         []string
		output        string
		fails         bool
	}{
		{"prerm remove", "internal-removal", []string{callRemoval}, "internal-removal failed\n", true},
		{"prerm 0", "internal-removal", []string{callRemoval}, "internal-removal failed\n", true},
		{"prerm remove", "uninstall", []string{callRemoval, callUninstall}, "uninstall failed\n", true},
		{"prerm remove", "systemctl", []string{callRemoval, callUninstall, callDisable},
			"systemctl failed\ncandor: candor-nri was not stopped and disabled; run systemctl disable --now candor-nri\n", false},
		{"prerm upgrade 0.2.0", "candor", nil, "", false},
		{"postinst configure", "systemctl", []string{callReload}, "systemctl failed\ncandor: systemd has not read the new unit; run systemctl daemon-reload\n", false},
		{"postinst configure 0.1.0", "try-restart", []string{callReload, callRestart},
			"try-restart failed\ncandor: candor-nri did not restart; see systemctl status candor-nri\n", false},
		{"postinst 2", "try-restart", []string{callReload, callRestart},
			"try-restart failed\ncandor: candor-nri did not restart; see systemctl status candor-nri\n", false},
		{"postrm remove", "systemctl", []string{callReload}, "systemctl failed\ncandor: systemd has not forgotten the unit; run systemctl daemon-reload\n", false},
	} {
		args := strings.Fields(c.line)
		r := scriptRun{removal: "uninstall", failing: c.failing}
		calls, out, err := r.run(t, args[0], args[1:]...)
		if (err != nil) != c.fails || out != c.output || !slices.Equal(calls, c.calls) {
			t.Errorf("%s with a failing %s: %q, %v, %q; want %q, %q", c.line, c.failing, calls, err, out, c.calls, c.output)
		}
	}
}

// TestPackageViewService: an upgrade restarts a running candor view refresh, and a removal disables it, if the administrator has
// installed its unit. A failing systemctl fails no script.
func TestPackageViewService(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(root+viewUnit), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+viewUnit, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]struct {
		calls  []string
		output string // if systemctl fails for the unit
	}{
		"postinst configure 0.1.0": {[]string{callReload, callRestart, callViewRestart}, "candor: candor-view did not restart; see systemctl status candor-view\n"},
		"postinst 2":               {[]string{callReload, callRestart, callViewRestart}, "candor: candor-view did not restart; see systemctl status candor-view\n"},
		"postinst configure":       {[]string{callReload}, ""},
		"prerm remove":             {[]string{callRemoval, callDisable, callViewDisable}, "candor: candor-view was not stopped and disabled; run systemctl disable --now candor-view\n"},
		"prerm 0":                  {[]string{callRemoval, callDisable, callViewDisable}, "candor: candor-view was not stopped and disabled; run systemctl disable --now candor-view\n"},
		"prerm upgrade 0.2.0":      {nil, ""},
	} {
		args := strings.Fields(line)
		calls, out, err := scriptRun{root: root}.run(t, args[0], args[1:]...)
		if err != nil || out != "" || !slices.Equal(calls, want.calls) {
			t.Errorf("%s: %q, %v, %q; want %q", line, calls, err, out, want.calls)
		}
		_, out, err = scriptRun{root: root, failing: "systemctl"}.run(t, args[0], args[1:]...)
		if err != nil || !strings.Contains(out, want.output) {
			t.Errorf("%s with a failing systemctl: %v, %q; want %q", line, err, out, want.output)
		}
	}
}

// TestPackageOverInstallation: a package refuses to install over files of make install and over a unit that hides its own, with one
// line. An upgrade keeps such a unit.
func TestPackageOverInstallation(t *testing.T) {
	for file, want := range map[string]string{
		"/usr/local/bin/candor":                            "; run make uninstall in its source tree, or remove it, then install again\n",
		"/usr/local/lib/systemd/system/candor-nri.service": "; run make uninstall in its source tree, or remove it, then install again\n",
		"/usr/share/candor/files":                          "; run make uninstall PREFIX=/usr in its source tree, then install again\n",
		hidingUnit:                                         "; remove it, then install again\n",
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(root+file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		for arg, isUpgrade := range map[string]bool{"install": false, "upgrade": true, "1": false, "2": true} {
			_, out, err := scriptRun{root: root}.run(t, "preinst", arg)
			if isUpgrade && file == hidingUnit {
				if err != nil || out != "" {
					t.Errorf("preinst %s with %s: %v, %q", arg, file, err, out)
				}
			} else if err == nil || out != "candor: "+file+" is not of a package"+want {
				t.Errorf("preinst %s with %s: %v, %q", arg, file, err, out)
			}
		}
		if _, out, err := (scriptRun{root: root}).run(t, "preinst", "abort-upgrade"); err != nil || out != "" {
			t.Errorf("preinst abort-upgrade: %v, %q", err, out)
		}
	}
}

const (
	hidingUnit = "/etc/systemd/system/candor-nri.service"
	viewUnit   = "/etc/systemd/system/candor-view.service"
)

// TestPackageMaskedUnit: a package is installed on a machine that masks the service.
func TestPackageMaskedUnit(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(root+hidingUnit), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", root+hidingUnit); err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{"install", "1"} {
		if _, out, err := (scriptRun{root: root}).run(t, "preinst", arg); err != nil || out != "" {
			t.Errorf("preinst %s: %v, %q", arg, err, out)
		}
	}
}

// TestPackagePurge: a purge removes the configuration, and a removal retains it.
func TestPackagePurge(t *testing.T) {
	root := t.TempDir()
	config := filepath.Join(root, "etc/candor/nri.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]bool{"remove": true, "upgrade": true, "0": true} {
		if _, out, err := (scriptRun{root: root}).run(t, "postrm", arg); err != nil || out != "" {
			t.Errorf("postrm %s: %v, %q", arg, err, out)
		}
		if _, err := os.Stat(config); (err == nil) != want {
			t.Errorf("postrm %s: %v", arg, err)
		}
	}
	if _, out, err := (scriptRun{root: root}).run(t, "postrm", "purge"); err != nil || out != "" {
		t.Errorf("postrm purge: %v, %q", err, out)
	}
	if left := tree(t, root); !slices.Equal(left, []string{"", "/etc"}) {
		t.Errorf("postrm purge leaves %q", left)
	}
}

// TestPackageFiles: each source of nfpm.yaml in the repository exists, all files below /etc are configuration files, and the
// shipped configuration is valid.
func TestPackageFiles(t *testing.T) {
	text, err := os.ReadFile("packages/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Contents []struct{ Src, Dst, Type string }
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	sources := []string{}
	for _, c := range config.Contents {
		if !strings.HasPrefix(c.Src, "$") && c.Type != "symlink" {
			sources = append(sources, c.Src)
		}
		if isConfig := strings.HasPrefix(c.Type, "config"); isConfig != strings.HasPrefix(c.Dst, "/etc/") {
			t.Errorf("%s has the type %q", c.Dst, c.Type)
		}
	}
	for _, script := range config.Scripts {
		sources = append(sources, script)
	}
	for _, source := range sources {
		if _, err := os.Stat(filepath.Join("..", source)); err != nil {
			t.Error(err)
		}
	}
	if len(sources) < 8 {
		t.Errorf("found %d sources in the repository, want at least 8", len(sources))
	}
	if _, err := nri.LoadConfig("packages/nri.yaml"); err != nil {
		t.Error(err)
	}
}
