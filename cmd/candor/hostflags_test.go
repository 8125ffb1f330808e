package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// pods returns a snapshot of containers. Each pair is a container ID and the name of a container of a pod, or
// "".
func pods(containers ...[2]string) *host.Snapshot {
	s := &host.Snapshot{}
	for _, c := range containers {
		g := host.Grant{Engine: host.Engine{Name: c[1]}}
		g.ID = c[0]
		s.Grants = append(s.Grants, g)
	}
	return s
}

func TestGrantNamed(t *testing.T) {
	s := pods([2]string{"web", ""}, [2]string{"web-0.app-1", "default/web-0/app"}, [2]string{"web-1.app-2", "default/web-1/app"},
		[2]string{"web-1.app-3", "default/web-1/app"}, [2]string{"log-4", "logs/web/log"}, [2]string{"app-5", "x/y/web"},
		[2]string{"0123456789ab", "happy_hopper"}, [2]string{"0123ffffffff", "cache"}, [2]string{"beefbeefbeef", ""})
	whole := "0123456789ab" + strings.Repeat("0", 52)
	for name, want := range map[string]string{
		"web":               "web", // an ID has precedence over a name
		"web-0.app-1":       "web-0.app-1",
		"default/web-0/app": "web-0.app-1",
		"web-0/app":         "web-0.app-1",
		"log":               "log-4",
		"web/log":           "log-4",
		"y/web":             "app-5",
		"default/web-0":     "web-0.app-1", // a pod with a single container
		"web-0":             "web-0.app-1",
		"x/y":               "app-5",
		"happy_hopper":      "0123456789ab",
		"0123456789ab":      "0123456789ab",
		whole:               "0123456789ab",
		"01234":             "0123456789ab",
		"beef":              "beefbeefbeef",
		"bee":               "",
		"eb/log":            "", "default": "", "nobody": "", "/": "", "a/b/c/d": "", "happy": "", "web-0.a": "", whole[:63] + "x": "",
	} {
		g, err := grantNamed(s, name)
		if want == "" {
			if err == nil || hostError(err).(*exitError).code != exitBadInput {
				t.Errorf("%s: %v, %v; want none", name, g, err)
			}
			continue
		}
		if err != nil || g.ID != want {
			t.Errorf("%s: %v, %v; want %s", name, g, err, want)
		}
	}
	for name, want := range map[string]string{
		"app":               `"app" is the name of 3 containers: use one of default/web-0/app, web-1.app-2, web-1.app-3`,
		"web-1":             `"web-1" is the name of 2 containers: use one of web-1.app-2, web-1.app-3`,
		"0123":              `"0123" is the name of 2 containers: use one of happy_hopper, cache`,
		"default/web-1/app": `"default/web-1/app" is the name of 2 containers: use one of web-1.app-2, web-1.app-3`,
	} {
		if g, err := grantNamed(s, name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, %v; want %s", name, g, err, want)
		}
	}
}

// TestGrantNamedManyMatches: if many containers match a name, the error lists five of them and escapes
// control characters.
func TestGrantNamedManyMatches(t *testing.T) {
	var all [][2]string
	for n := range 9 {
		all = append(all, [2]string{"a-" + string(rune('0'+n)), "default/pod\x1b[2J" + string(rune('0'+n)) + "/app"})
	}
	_, err := grantNamed(pods(all...), "app")
	if err == nil || strings.Count(err.Error(), "default/") != 5 || !strings.HasSuffix(err.Error(), ", 4 more") || strings.Contains(err.Error(), "\x1b") {
		t.Error(err)
	}
}

// TestPodRow: ps and inspect print the name of a container of a pod instead of its command.
func TestPodRow(t *testing.T) {
	g := host.Grant{State: host.Running, Engine: host.Engine{Name: "default/web-0/app"}}
	g.ID, g.Class, g.Command = "web-0.app-1", hybrid.Flexible, g.Engine.Name
	var table, report strings.Builder
	row := newGrantRow(&g, &host.ContainerState{Processes: []int{1}}, 0)
	if err := writeRows(&table, 0, []grantRow{row}, false); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(table.String()); strings.Count(table.String(), "default/web-0/app") != 1 || slices.Contains(got, "web-0.app-1") {
		t.Errorf("ps:\n%s", &table)
	}
	if err := writeInspection(&report, newInspection(&g, &host.ContainerState{}, 0)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name       default/web-0/app\n", "id         web-0.app-1\n"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("inspect lacks %q:\n%s", want, &report)
		}
	}
}

// TestUseNodeStateDir: the flag and the environment override stateDir of candor nri, and stateDir overrides the default.
func TestUseNodeStateDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	for name, test := range map[string]struct{ config, variable, flag, want string }{
		"no file":             {"", "", "", host.DefaultStateDir()},
		"no stateDir":         {"version: 1\n", "", "", host.DefaultStateDir()},
		"stateDir":            {"version: 1\nstateDir: /run/other\n", "", "", "/run/other"},
		"variable":            {"version: 1\nstateDir: /run/other\n", "/run/v", "", "/run/v"},
		"flag":                {"version: 1\nstateDir: /run/other\n", "", "/run/f", "/run/f"},
		"flag, invalid file":  {"version: 9\n", "", "/run/f", "/run/f"},
		"invalid file":        {"version: 9\n", "", "", ""},
		"invalid file, value": {"version: 1\nstateDir: run\n", "", "", ""},
	} {
		t.Setenv("CANDOR_STATE_DIR", test.variable)
		config := filepath.Join(t.TempDir(), "nri.yaml")
		if test.config != "" {
			if err := os.WriteFile(config, []byte(test.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := &cobra.Command{}
		f := addHostFlags(cmd)
		if test.flag != "" {
			if err := cmd.Flags().Set("state-dir", test.flag); err != nil {
				t.Fatal(err)
			}
		}
		err := f.useNodeStateDir(cmd, config)
		var exit *exitError
		switch {
		case test.want != "" && (err != nil || f.options.StateDir != test.want):
			t.Errorf("%s: %s, %v, want %s", name, f.options.StateDir, err, test.want)
		case test.want == "" && (!errors.As(err, &exit) || exit.code != exitBadInput || !strings.Contains(err.Error(), "use --state-dir") || !strings.Contains(err.Error(), config)):
			t.Errorf("%s: %v", name, err)
		}
	}
}
