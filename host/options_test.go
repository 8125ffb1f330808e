package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/topology"
)

func TestOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "etc", "candor", "host.json")
	if o, err := LoadOptions(file); o != (NodeOptions{}) || err != nil {
		t.Errorf("no file: %+v, %v", o, err)
	}
	want := NodeOptions{Reserved: cpuset.Of(0, 1), MinShared: 500, UseIsolated: true}
	if err := SaveOptions(file, want); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if o, err := LoadOptions(name); o != want || err != nil {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// An invalid options file gives a one-line error that names the file, without waiting.
func TestOptionsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(unix.Mkfifo(at("pipe"), 0o644), os.Symlink("loop", at("loop")), os.Mkdir(at("folder"), 0o755),
		os.WriteFile(at("empty"), nil, 0o644), os.WriteFile(at("typo"), []byte(`{"reservd":"0"}`), 0o644),
		os.WriteFile(at("value"), []byte(`{"reserved":"x"}`), 0o644), os.WriteFile(at("level"), []byte(`{"helpers":"hide"}`), 0o644), os.WriteFile(at("huge"), make([]byte, 1<<17), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"pipe": "not a plain file", "loop": "too many levels of symbolic links", "folder": "not a plain file",
		"empty": "empty", "typo": "unknown field", "value": `CPU list "x"`, "level": `helpers "hide": must be show, place or charge`, "huge": "more than 65536 bytes",
	} {
		_, err := LoadOptions(at(name))
		if !errors.Is(err, ErrBadOptions) {
			t.Fatalf("%s: %v, want ErrBadOptions", name, err)
		}
		for _, part := range []string{want, at(name), exampleOptions} {
			if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}

// The example in error messages is valid.
func TestExampleOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.json")
	if err := os.WriteFile(file, []byte(exampleOptions), 0o644); err != nil {
		t.Fatal(err)
	}
	want := NodeOptions{Reserved: cpuset.Of(0, 1), MinShared: 500, Algorithm: hybrid.Candor}
	if o, err := LoadOptions(file); o != want || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// A host follows an options file that changes, becomes invalid, disappears, and returns unchanged.
func TestOptionsChange(t *testing.T) {
	h := &Host{config: filepath.Join(t.TempDir(), "host.json")}
	for _, c := range []struct {
		text string // empty: no file
		want NodeOptions
		bad  bool
	}{
		{`{"minShared":"500m"}`, NodeOptions{MinShared: 500}, false},
		{`{"minShared":"500m"}`, NodeOptions{MinShared: 500}, false},
		{`{"minShared":"600m"}`, NodeOptions{MinShared: 600}, false}, // same length as before
		{`{"minShared":"700x"}`, NodeOptions{}, true},
		{`{"minShared":"700x"}`, NodeOptions{}, true},
		{`{"minShared":"600m"}`, NodeOptions{MinShared: 600}, false},
		{"", NodeOptions{}, false},
		{`{"minShared":"600m"}`, NodeOptions{MinShared: 600}, false},
	} {
		os.Remove(h.config)
		if c.text != "" {
			if err := os.WriteFile(h.config, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if o, err := h.NodeOptions(); o != c.want || errors.Is(err, ErrBadOptions) != c.bad || (err != nil) != c.bad {
			t.Errorf("%s: %+v, %v", c.text, o, err)
		}
	}
}

// Options that the machine cannot meet are refused.
func TestOptionsOfAMachine(t *testing.T) {
	machine, err := topology.Parse("core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	machine.Offline = cpuset.Of(4, 5)
	for _, c := range []struct {
		reserved  string
		minShared Amount
		want      string // a part of the error; empty: no error
	}{
		{"", 0, ""},
		{"0,4-5", 2000, ""}, // offline CPUs may return
		{"0,7", 0, "reserved 0,7: the machine does not have CPU 7; use CPUs of 0-5"},
		{"6-7", 0, "reserved 6-7: the machine does not have CPUs 6-7; use CPUs of 0-5"},
		{"1-3", 0, "reserved 1-3: no CPU of Candor's parent cgroup (1-3) would remain; reserve fewer"},
		{"1-2", 99000, "min-shared 99000m: must be 0 to 1,"},
	} {
		o := NodeOptions{Reserved: cpuset.MustParse(c.reserved), MinShared: c.minShared}
		_, err := o.node(machine, cpuset.MustParse("1-3"))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
}

// A container has the higher of its own level of helper accounting and the machine's, also after a recovery of the state.
func TestHelpersOfAMachine(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	for i, c := range []struct{ own, machine, want spec.Helpers }{
		{spec.HelpersShow, spec.HelpersShow, spec.HelpersShow},
		{spec.HelpersShow, spec.HelpersPlace, spec.HelpersPlace},
		{spec.HelpersCharge, spec.HelpersPlace, spec.HelpersCharge},
	} {
		if err := l.SetOptions(NodeOptions{Helpers: c.machine}); err != nil {
			t.Fatal(err)
		}
		a := e.ask(flexible("log", "0"), fmt.Sprint("log", i))
		a.Helpers = c.own
		g, err := l.Admit(ctx, a, 0)
		if err != nil || g.Helpers != c.want {
			t.Fatalf("%+v: %v, %v", c, g, err)
		}
		if err := l.SetOptions(NodeOptions{}); err != nil {
			t.Fatal(err)
		}
		stop := e.run(fmt.Sprint("log", i), settingsOf(g))
		if err := os.Remove(l.store.File()); err != nil {
			t.Fatal(err)
		}
		l.nudge()
		s, err := l.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if g, err := s.Grant("log"); err != nil || g.Helpers != c.want {
			t.Errorf("%+v: after a recovery: %+v, %v", c, g, err)
		}
		stop()
		if err := l.EndSandbox(ctx, a.Engine.Pod, a.Engine.Sandbox); err != nil {
			t.Fatal(err)
		}
	}
}
