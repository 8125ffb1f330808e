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

// runScript runs a script of the packages and returns the calls of systemctl and candor. In hasUninstall, candor has the command
// uninstall. The script sees a running systemd, and root as the root directory for the files that it checks.
func runScript(t *testing.T, name, root string, hasSystemd, hasUninstall bool, args ...string) (calls []string, output string, err error) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("systemctl", "#!/bin/sh\necho systemctl \"$@\" >>"+log+"\n")
	write("candor", "#!/bin/sh\nif [ \"$1\" = help ]; then exit "+map[bool]string{true: "0", false: "2"}[hasUninstall]+"; fi\necho candor \"$@\" >>"+log+"\n")
	text, err := os.ReadFile(filepath.Join("packages", name))
	if err != nil {
		t.Fatal(err)
	}
	running := filepath.Join(dir, "no-systemd")
	if hasSystemd {
		running = dir
	}
	write(name, strings.NewReplacer("/run/systemd/system", running, "${DPKG_ROOT:-}/etc", root+"/etc", "${DPKG_ROOT:-}$file", root+"$file").Replace(string(text)))
	cmd := exec.Command("sh", append([]string{filepath.Join(dir, name)}, args...)...)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if logged, readErr := os.ReadFile(log); readErr == nil {
		calls = strings.Split(strings.TrimSuffix(string(logged), "\n"), "\n")
	}
	return calls, string(out), err
}

// TestPackageScripts: an installation enables and starts nothing, an upgrade restarts a running service, and a removal gives the
// containers their CPUs back. Debian passes words, RPM the number of versions that remain.
func TestPackageScripts(t *testing.T) {
	const reload, restart, disable, uninstall = "systemctl daemon-reload", "systemctl try-restart candor-nri.service",
		"systemctl disable --now candor-nri.service", "candor uninstall"
	for line, want := range map[string][]string{
		"postinst configure":       {reload},
		"postinst configure 0.1.0": {reload, restart},
		"postinst 1":               {reload},
		"postinst 2":               {reload, restart},
		"preinst install":          nil,
		"preinst upgrade 0.1.0":    nil,
		"preinst 1":                nil,
		"prerm upgrade 0.2.0":      nil,
		"prerm 1":                  nil,
		"prerm remove":             {uninstall, disable},
		"prerm 0":                  {uninstall, disable},
		"postrm remove":            {reload},
		"postrm upgrade 0.2.0":     {reload},
		"postrm 0":                 {reload},
	} {
		args := strings.Fields(line)
		calls, out, err := runScript(t, args[0], t.TempDir(), true, true, args[1:]...)
		if err != nil || out != "" || !slices.Equal(calls, want) {
			t.Errorf("%s: %q, %v, %q; want %q", line, calls, err, out, want)
		}
		for _, call := range calls {
			if strings.Contains(call, " enable ") || strings.Contains(call, " start ") {
				t.Errorf("%s calls %s", line, call)
			}
		}
		var withoutSystemd []string
		if slices.Contains(want, uninstall) {
			withoutSystemd = []string{uninstall}
		}
		calls, out, err = runScript(t, args[0], t.TempDir(), false, true, args[1:]...)
		if err != nil || out != "" || !slices.Equal(calls, withoutSystemd) {
			t.Errorf("%s without systemd: %q, %v, %q; want %q", line, calls, err, out, withoutSystemd)
		}
	}
	if calls, out, err := runScript(t, "prerm", t.TempDir(), true, false, "remove"); err != nil || out != "" || !slices.Equal(calls, []string{disable}) {
		t.Errorf("without candor uninstall: %q, %v, %q", calls, err, out)
	}
}

// TestPackageOverInstallation: a package refuses to install over files of make install, with one line.
func TestPackageOverInstallation(t *testing.T) {
	for _, file := range []string{"/usr/local/bin/candor", "/usr/local/lib/systemd/system/candor-nri.service"} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(root+file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, arg := range []string{"install", "upgrade", "1", "2"} {
			_, out, err := runScript(t, "preinst", root, true, true, arg)
			if err == nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, file+" is not of a package; run make uninstall") {
				t.Errorf("preinst %s with %s: %v, %q", arg, file, err, out)
			}
		}
		if _, out, err := runScript(t, "preinst", root, true, true, "abort-upgrade"); err != nil || out != "" {
			t.Errorf("preinst abort-upgrade: %v, %q", err, out)
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
		if _, out, err := runScript(t, "postrm", root, true, true, arg); err != nil || out != "" {
			t.Errorf("postrm %s: %v, %q", arg, err, out)
		}
		if _, err := os.Stat(config); (err == nil) != want {
			t.Errorf("postrm %s: %v", arg, err)
		}
	}
	if _, out, err := runScript(t, "postrm", root, true, true, "purge"); err != nil || out != "" {
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
