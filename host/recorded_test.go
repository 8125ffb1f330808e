package host

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
)

// The files in testdata/recorded are from earlier releases. They never change: a node reads them after an upgrade.
func recordedFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/recorded", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRecordedSnapshot shows the containers of state files of versions 1 and 2.
func TestRecordedSnapshot(t *testing.T) {
	boot, err := procfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state-1.json", "state-2.json"} {
		dir := t.TempDir()
		text := strings.Replace(string(recordedFile(t, name)), "00000000-0000-4000-8000-00000000b007", boot, 1)
		if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := Open(Options{StateDir: dir, Config: filepath.Join(dir, "none.json"), Cgroup: cgroup.Options{Parent: "/candor-recorded", Driver: cgroup.Cgroupfs, ReadOnly: true}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := h.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Grants) != 2 {
			t.Fatalf("%s: %d grants, want 2", name, len(s.Grants))
		}
		web, log := &s.Grants[0], &s.Grants[1]
		if cpus := web.CPUs.Union(web.Lost); web.ID != "web" || web.Class != hybrid.Sensitive || web.Limit != 1500 || web.Topology != hybrid.SingleL3 || cpus.String() != "0-1" ||
			web.OnResize != "signal:HUP" || web.State != Running || web.Since == 0 {
			t.Errorf("%s: %+v", name, *web)
		}
		if log.ID != "log" || log.Class != hybrid.Flexible || log.Limit != 400 || log.Topology != hybrid.NoTopology || log.Period != 50*time.Millisecond || log.View != spec.ViewAffinity {
			t.Errorf("%s: %+v", name, *log)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRecordedOptions loads the options of a machine and saves the same bytes.
func TestRecordedOptions(t *testing.T) {
	o, err := LoadOptions("testdata/recorded/options.json")
	if err != nil {
		t.Fatal(err)
	}
	if o.Reserved.String() != "0-1" || o.MinShared != 500 || o.Algorithm != hybrid.Paper || !o.UseIsolated || !slices.Equal(o.ImageSettings.Names(), []string{"burst", "movable"}) || o.Helpers != spec.HelpersCharge {
		t.Errorf("loaded %+v", o)
	}
	file := filepath.Join(t.TempDir(), "host.json")
	if err := SaveOptions(file, o); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := recordedFile(t, "options.json"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, got, want)
	}
}

// TestRecordedResizeEnv compares the environment of a command of --on-resize with the variables that users'
// commands read.
func TestRecordedResizeEnv(t *testing.T) {
	g := &Grant{Main: Process{PID: 4711, Start: 1}}
	g.Request = hybrid.Request{ID: "web", Limit: 1500}
	g.CPUs = cpuset.Of(2, 3)
	want := []string{"CANDOR_NAME=web", "CANDOR_PID=4711", "CANDOR_CPUS=2-3", "CANDOR_CPU_COUNT=2", "CANDOR_LIMIT=1500m"}
	if got := resizeEnv(g); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
