package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

// newSetup returns a setup for a file with text. If text is empty, the file does not exist.
func newSetup(t *testing.T, engine Engine, text string) *Setup {
	t.Helper()
	dir := t.TempDir()
	s := &Setup{
		Engine: engine, File: filepath.Join(dir, "etc", "file"), Record: filepath.Join(dir, "candor", "record.json"),
		Runtimes: []Runtime{{"candor", "/bin/candor-runc"}, {"candor-flexible", "/bin/candor-flexible-runc"}},
	}
	if text != "" {
		if err := os.Mkdir(filepath.Dir(s.File), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.File, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// now returns the content of the file, or "" if it does not exist.
func (s *Setup) now(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.File)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

func TestApplyAndUndo(t *testing.T) {
	const dockerRuntimes = `"candor": {
      "path": "/bin/candor-runc"
    },
    "candor-flexible": {
      "path": "/bin/candor-flexible-runc"
    }`
	tests := []struct {
		engine    Engine
		text      string
		isDefault bool
		want      string // part of the output
	}{
		{Docker, "", false, "{\n  \"runtimes\": {\n    " + dockerRuntimes + "\n  }\n}\n"},
		{Docker, "{}", true, `"default-runtime": "candor"`},
		{Docker, `{"z": 1.50, "a": "<&>", "runtimes": {"x": {"path": "/x"}}}`, false, "{\n  \"z\": 1.50,\n  \"a\": \"<&>\",\n  \"runtimes\": {\n    \"x\": {\n      \"path\": \"/x\"\n    },\n    " + dockerRuntimes},
		{Docker, "{\n\t\"default-runtime\": \"nvidia\"\n}", true, "{\n\t\"default-runtime\": \"candor\",\n\t\"runtimes\""},
		{Podman, "", true, "[engine]\nruntime = \"candor\"\n[engine.runtimes]\n\"candor\" = [\"/bin/candor-runc\"]\n"},
		{Podman, "[containers]\ndefault_ulimits = []", false, "default_ulimits = []\n" + begin + "\n[engine.runtimes]\n"},
		{Containerd, "version = 2 # old\n", false, "version = 2 # old\n" + begin + "\n" + `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."candor"]`},
		{Containerd, "version = 3\n[debug]\nlevel = 'info'\n", false, `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes."candor".options]` + "\nBinaryName = '/bin/candor-runc'\n"},
		{Containerd, "version = 4\n", false, `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes."candor".options]`},
	}
	for _, test := range tests {
		s := newSetup(t, test.engine, test.text)
		s.Default = test.isDefault
		dry, err := s.Apply(true)
		if err != nil || s.now(t) != test.text {
			t.Fatalf("%s %q: dry run: %v, %q", test.engine.Name, test.text, err, s.now(t))
		}
		done, err := s.Apply(false)
		if err != nil || s.now(t) != string(dry.After) || string(done.After) != string(dry.After) || !strings.Contains(s.now(t), test.want) {
			t.Fatalf("%s %q: %v, it became\n%s, want\n%s", test.engine.Name, test.text, err, s.now(t), test.want)
		}
		if again, err := s.Apply(false); err != nil || !again.Nothing() {
			t.Errorf("%s %q: second Apply: %v\n%s", test.engine.Name, test.text, err, again.Diff())
		}
		if info, err := os.Stat(s.File); err == nil && test.text != "" && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v", test.engine.Name, info.Mode())
		}
		s.Default = false
		if _, err := s.Undo(false); err != nil || s.now(t) != test.text {
			t.Errorf("%s %q: after Undo the file is %q (%v)", test.engine.Name, test.text, s.now(t), err)
		}
		if _, err := os.Stat(s.Record); err == nil {
			t.Errorf("%s: the record was not removed", test.engine.Name)
		}
		if nothing, err := s.Undo(false); err != nil || !nothing.Nothing() {
			t.Errorf("%s: second Undo: %+v %v", test.engine.Name, nothing, err)
		}
	}
}

// TestContainerdOptions: the added runtimes have the options of the default runtime, because pods need its
// cgroup driver. The options of runc are used if the default runtime has another type.
func TestContainerdOptions(t *testing.T) {
	const runtimes = "[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'main'\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nIoUid = 7\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.main]\nruntime_type = 'KIND'\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.main.options]\nSystemdCgroup = true\nBinaryName = '/x'\nRoot = '/r'\n"
	for kind, want := range map[string]map[string]any{
		"io.containerd.runc.v2": {"BinaryName": "/bin/candor-runc", "SystemdCgroup": true, "Root": "/r"},
		"io.containerd.kata.v2": {"BinaryName": "/bin/candor-runc", "IoUid": int64(7)},
	} {
		s := newSetup(t, Containerd, "version = 3\n"+strings.ReplaceAll(runtimes, "KIND", kind))
		for range 2 {
			if _, err := s.Apply(false); err != nil {
				t.Fatal(err)
			}
		}
		var all map[string]any
		if err := toml.Unmarshal([]byte(s.now(t)), &all); err != nil {
			t.Fatal(err)
		}
		got := table(all, "plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes", "candor", "options")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}

func TestBadFilesUnchanged(t *testing.T) {
	for _, test := range []struct {
		engine     Engine
		text, want string
	}{
		{Docker, `{"a":1,}`, "not a JSON object"},
		{Docker, `[]`, "not a JSON object"},
		{Docker, `{} {}`, "text follows the end"},
		{Docker, `{"a":1,"a":2}`, "duplicate key"},
		{Docker, `{"runtimes":[]}`, "runtimes: "},
		{Docker, `{"runtimes":{"candor":{"path":"/else"}}}`, "remove it first"},
		{Podman, "a = [", "not TOML"},
		{Podman, "[engine.runtimes]\n", "would not be valid TOML"},
		{Podman, begin, "without \"# end candor\""},
		{Containerd, "version = 'x'\n", "not TOML"},
		{Containerd, "version = 1\n", "must be 2, 3 or 4"},
		{Containerd, "", "containerd config default"},
		{Containerd, "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.candor]\n", "already exists"},
	} {
		s := newSetup(t, test.engine, test.text)
		_, err := s.Apply(false)
		if !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), test.want) || s.now(t) != test.text {
			t.Errorf("%s %q: %v, want %q; the file is %q", test.engine.Name, test.text, err, test.want, s.now(t))
		}
		if _, err := os.Stat(s.Record); err == nil {
			t.Errorf("%s %q: a record was written", test.engine.Name, test.text)
		}
	}
}

// TestOwner: Apply keeps the owner and the mode of the file.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changes the owner of a file: needs root")
	}
	s := newSetup(t, Docker, "{}")
	if err := os.Chown(s.File, 1234, 2345); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(false); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.File, &st); err != nil || st.Uid != 1234 || st.Gid != 2345 || st.Mode&0o777 != 0o640 {
		t.Errorf("owner %d:%d, mode %o: %v", st.Uid, st.Gid, st.Mode, err)
	}
}

// TestLink: Apply changes the target of a symbolic link and keeps the link.
func TestLink(t *testing.T) {
	s := newSetup(t, Docker, "{}")
	target := s.File + ".real"
	if err := os.Rename(s.File, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, s.File); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(s.File); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if text, _ := os.ReadFile(target); !strings.Contains(string(text), "candor-runc") {
		t.Errorf("%s", text)
	}
}

func TestDiff(t *testing.T) {
	c := Change{File: "/etc/x", Before: []byte("a\nb\nc\nd\ne\nf\n"), After: []byte("a\nb\nc\nd\nX\nf\n")}
	if got, want := c.Diff(), "--- /etc/x\n+++ /etc/x\n@@ -2,5 +2,5 @@\n b\n c\n d\n-e\n+X\n f\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c = Change{File: "/etc/x", After: []byte("a\n")}
	if got, want := c.Diff(), "--- /etc/x\n+++ /etc/x\n@@ -0,0 +1 @@\n+a\n"; got != want {
		t.Errorf("new file: %q, want %q", got, want)
	}
}

// FuzzDocker: a file is refused, or becomes a valid configuration. An undo then removes Candor's entries and
// keeps the others.
func FuzzDocker(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1]},"runtimes":{"x":{"path":"/x"}}}`), true)
	f.Add([]byte("{\n\t\"default-runtime\":\"x\"\n}"), false)
	f.Add([]byte(`{"default-runtime":"candor"}`), false)
	f.Fuzz(func(t *testing.T, text []byte, isDefault bool) {
		s := &Setup{Runtimes: []Runtime{{"candor", "/c"}, {"candor-flexible", "/f"}}, Default: isDefault}
		out, err := addToDocker(text, s)
		if err != nil {
			return
		}
		if _, _, err := readDocker(out); err != nil || !bytes.Contains(out, []byte("candor-flexible")) {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		back, err := removeFromDocker(out, &record{Before: text}, s)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		var was, is any = map[string]any{}, nil
		if len(bytes.TrimSpace(text)) > 0 {
			json.Unmarshal(text, &was)
		}
		if err := json.Unmarshal(back, &is); err != nil || !reflect.DeepEqual(was, is) && s.canStart(text) {
			t.Errorf("%q became %q, and undone %q: %v", text, out, back, err)
		}
	})
}

func FuzzTOML(f *testing.F) {
	f.Add([]byte("version = 2\n[plugins]\n"))
	f.Add([]byte("version = 3"))
	f.Add([]byte(begin + "\nx = 1\n" + end))
	f.Add([]byte(begin))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &Setup{Runtimes: []Runtime{{"candor", "/c"}}}
		for _, add := range []func([]byte, *Setup) ([]byte, error){addToPodman, addToContainerd} {
			out, err := add(text, s)
			if err != nil {
				continue
			}
			var all map[string]any
			if err := toml.Unmarshal(out, &all); err != nil {
				t.Errorf("%q became %q: %v", text, out, err)
			}
			if again, err := add(out, s); err != nil || !bytes.Equal(again, out) {
				t.Errorf("%q became %q, then %q: %v", text, out, again, err)
			}
		}
	})
}
