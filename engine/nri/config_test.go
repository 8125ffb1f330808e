package nri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "nri.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadConfig(t *testing.T) {
	c, err := LoadConfig(write(t, `
version: 1
stateDir: /run/candor-lab
repairEvery: 20s
headStart: false
node:
  reserved: 0-1
  minShared: 250m
defaults:
  policy: best-effort
namespaces:
  spark: {class: sensitive, on-resize: "signal:HUP"}
  kube-system:
    preserve: true
forbiddenViews:
  "*": [full+stat]
  spark: []
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.StateDir != "/run/candor-lab" || c.Reserved.String() != "0-1" || *c.MinShared != 250 || c.RepairEvery != 20*time.Second || c.HeadStart {
		t.Errorf("got %+v", c)
	}
	if got := fmt.Sprint(c.forbiddenViews("spark"), c.forbiddenViews("default")); got != "[] [full+stat]" {
		t.Errorf("forbidden views: %s", got)
	}
	if *c.Node.Policy != hybrid.BestEffort || *c.Namespaces["spark"].Class != hybrid.Sensitive || !*c.Namespaces["kube-system"].Preserve {
		t.Errorf("got %+v", c)
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := LoadConfig(write(t, "version: 1\n"))
	if err != nil || c.RepairEvery != 30*time.Second || !c.HeadStart {
		t.Errorf("got %+v, %v", c, err)
	}
	if o := c.Over(host.NodeOptions{}); o != (host.NodeOptions{MinShared: 500}) {
		t.Errorf("over nothing: %+v", o)
	}
}

// TestConfigOverOptions: options that the configuration does not set keep the administrator's values.
func TestConfigOverOptions(t *testing.T) {
	has := host.NodeOptions{Reserved: cpuset.Of(0), MinShared: 200, UseIsolated: true}
	for text, want := range map[string]host.NodeOptions{
		"version: 1\n":                         has,
		"version: 1\nnode: {}\n":               has,
		"version: 1\nnode: {minShared: 0}\n":   {Reserved: cpuset.Of(0), UseIsolated: true},
		"version: 1\nnode: {reserved: 1-2}\n":  {Reserved: cpuset.Of(1, 2), MinShared: 200, UseIsolated: true},
		"version: 1\nnode: {reserved: \"\"}\n": {MinShared: 200, UseIsolated: true},
	} {
		c, err := LoadConfig(write(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Over(has); got != want {
			t.Errorf("%q: %+v; want %+v", text, got, want)
		}
	}
}

func TestBadConfigNamesFileAndLine(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "nri.yaml: empty file: must have version: 1"},
		{"# nothing\n", "empty"},
		{"defaults: {}\n", "nri.yaml:1: no version: use version: 1"},
		{"version: 2\n", `nri.yaml:1: version "2": must be 1`},
		{"version: 1\nversion: 1\n", `nri.yaml:2: "version": must appear once`},
		{"version: 1\nmetricsWebConfig: web.yml\n", `nri.yaml:2: metricsWebConfig "web.yml": must be an absolute path, such as /etc/candor/web-config.yml`},
		{"version: 1\nnodes: {}\n", `nri.yaml:2: unknown field "nodes": must be one of defaults, forbiddenViews, headStart, metrics, metricsWebConfig, namespaces,`},
		{"version: 1\nnode:\n  reserved: 3-1\n", "nri.yaml:3: "},
		{"version: 1\nnode:\n  reserve: 3\n", `nri.yaml:3: unknown field "reserve": must be one of minShared, reserved`},
		{"version: 1\nnode:\n  minShared: half\n", "nri.yaml:3: CPU amount \"half\""},
		{"version: 1\nnode: 5\n", "nri.yaml:2: must be fields"},
		{"version: 1\nstateDir: run/candor\n", "nri.yaml:2: stateDir \"run/candor\": must be an absolute path"},
		{"version: 1\nstateDir: [a]\n", "nri.yaml:2: must be a single value"},
		{"version: 1\nrepairEvery: 0s\n", "nri.yaml:2: repairEvery \"0s\": must be 1s to 1h"},
		{"version: 1\nrecordHistogram: 5ms\n", "nri.yaml:2: recordHistogram \"5ms\": must be one of none, 10ms, 100ms, 1s"},
		{"version: 1\ndefaults:\n  class: sensitve\n", "nri.yaml:3: class \"sensitve\": must be one of sensitive, flexible"},
		{"version: 1\nnamespaces:\n  a:\n    klass: flexible\n", "nri.yaml:4: unknown setting \"klass\""},
		{"version: 1\ndefaults: {on-resize: \"exec:rm\"}\n", "cannot run commands"},
		{"version: 1\nforbiddenViews:\n  a: full\n", "nri.yaml:3: must be a list of views"},
		{"version: 1\nforbiddenViews:\n  a: [all]\n", "nri.yaml:3: view \"all\": must be affinity, cpu, full or full+stat"},
		{"version: 1\nforbiddenViews: {a: [cpu, full, affinity, full+stat]}\n", "nri.yaml:2: all views are forbidden: must leave one of affinity, cpu, full, full+stat"},
		{"version: [1\n", "nri.yaml:"},
		{"version: 1\n\tdefaults: {}\n", "nri.yaml:2: "},
		{"- version\n", "nri.yaml:1: must be fields"},
		{"version: 1\n---\nnamespaces: {}\n", "nri.yaml:2: second document"},
		{"version: 1\n---\n[\n", "nri.yaml:"},
	} {
		_, err := LoadConfig(write(t, test.text))
		if !errors.Is(err, ErrBadConfig) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want %q", test.text, err, test.want)
		}
	}
	if _, err := LoadConfig("/nowhere/nri.yaml"); !errors.Is(err, ErrBadConfig) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing: %v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("version: 1\nnode: {reserved: 0-1}\n"))
	f.Add([]byte("version: 1\nnamespaces: {a: {class: sensitive}}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if (c == nil) == (err == nil) {
			t.Errorf("%v, %v", c, err)
		}
	})
}
