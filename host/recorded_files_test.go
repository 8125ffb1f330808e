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
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/internal/wholefile"
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
		if cpus := web.CPUs.Union(web.Lost); web.ID != "web" || web.Class != hybrid.Sensitive || web.Limit != 1500 || web.Wish != hybrid.SingleL3 || cpus.String() != "0-1" ||
			web.OnResize != "signal:HUP" || web.State != Running || web.Since == 0 {
			t.Errorf("%s: %+v", name, *web)
		}
		if log.ID != "log" || log.Class != hybrid.Flexible || log.Limit != 400 || log.Wish != hybrid.AnyCPUs || log.Period != 50*time.Millisecond || log.View != ViewAffinity {
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
	if o.Reserved.String() != "0-1" || o.MinShared != 500 || o.Algorithm != hybrid.Paper || !o.UseIsolated || !slices.Equal(o.ImageSettings.Names(), []string{"burst", "movable"}) {
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

// TestRecordedPreserved loads the record of a container that keeps its own CPUs and saves the same bytes.
func TestRecordedPreserved(t *testing.T) {
	s := store{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Dir(s.preservedFile("web")), 0o755); err != nil {
		t.Fatal(err)
	}
	text := recordedFile(t, "preserved.json")
	if err := os.WriteFile(s.preservedFile("web"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	p, ok := s.loadPreserved("web")
	if !ok || p.CPUs.String() != "2-3" || p.By != (Process{1001, 20001}) {
		t.Fatalf("loaded %t, %+v", ok, p)
	}
	if err := s.savePreserved("web", p); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(s.preservedFile("web")); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, got, text)
	}
}

// TestRecordedKept loads the place of a container that an OCI runtime has deleted and saves the same bytes.
func TestRecordedKept(t *testing.T) {
	text := recordedFile(t, "kept.json")
	var k keptPlace
	if err := wholefile.DecodeStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	g, err := k.Grant.grant()
	if err != nil || g.ID != "web" || g.CPUs.String() != "0-1" || k.UntilMs != 90000 {
		t.Errorf("%v, until %d, %+v", err, k.UntilMs, g)
	}
	if got, err := jsonText(keptPlace{k.Boot, k.UntilMs, newFileGrant(&g)}); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, got, text)
	}
}
