package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNRI: the setup enables NRI, in the table that exists or in a new one, and the undo restores the file.
func TestNRI(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no table":        {"version = 2\n[plugins.a]\nb = 1\n", "version = 2\n[plugins.a]\nb = 1\n" + nriBegin + "\n[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\n" + nriEnd + "\n"},
		"no last newline": {"version = 2", "version = 2\n" + nriBegin + "\n[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\n" + nriEnd + "\n"},
		"disabled": {
			"version = 2\n  [plugins.\"io.containerd.nri.v1.nri\"]\n    disable = true\n    disable_connections = false\n[plugins.x]\ndisable = true\n",
			"version = 2\n  [plugins.\"io.containerd.nri.v1.nri\"]\n    disable = false " + nriChanged + "\n    disable_connections = false\n[plugins.x]\ndisable = true\n",
		},
		"missing": {"", "version = 2\n" + nriBegin + "\n[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = false\n" + nriEnd + "\n"},
		// containerd's packages of docker.com have such a file.
		"no version":          {"oom_score = 0\n", "oom_score = 0\n" + nriBegin + "\n[plugins.\"nri\"]\ndisable = false\n" + nriEnd + "\n"},
		"version 1, disabled": {"version = 1\n[plugins.nri]\ndisable = true\n", "version = 1\n[plugins.nri]\ndisable = false " + nriChanged + "\n"},
		"version 1, enabled":  {"[plugins.nri]\ndisable = false\n", "[plugins.nri]\ndisable = false\n"},
		"long name in version 1": { // containerd 1.7 ignores the name
			"[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n",
			"[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n" + nriBegin + "\n[plugins.\"nri\"]\ndisable = false\n" + nriEnd + "\n",
		},
		"enabled": {"version = 2\n[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n", "version = 2\n[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n"},
	} {
		dir := t.TempDir()
		s := &Setup{Engine: NRI, File: filepath.Join(dir, "config.toml"), Record: filepath.Join(dir, "setup-nri.json")}
		if c.text != "" {
			if err := os.WriteFile(s.File, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		wasEnabled := c.text == c.want
		if is, err := s.IsEnabled(); err != nil || is != wasEnabled {
			t.Errorf("%s: enabled %v before, %v", name, is, err)
		}
		for range 2 { // the second call changes nothing
			if _, err := s.Apply(false); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text, _ := os.ReadFile(s.File); string(text) != c.want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, text, c.want)
			}
		}
		if is, err := s.IsEnabled(); err != nil || !is {
			t.Errorf("%s: enabled %v after, %v", name, is, err)
		}
		later := c.want + "[later]\na = 1\n" // a later change of the user stays
		for _, now := range []string{c.want, later} {
			if err := os.WriteFile(s.File, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Undo(false); err != nil {
				t.Errorf("%s: undo: %v", name, err)
			}
			want := c.text + strings.TrimPrefix(now, c.want)
			if c.text == "" && now == later { // the version stays with the later change
				want = "version = 2\n[later]\na = 1\n"
			}
			if text, _ := os.ReadFile(s.File); string(text) != want && !(strings.HasPrefix(name, "no last") && string(text) == "version = 2\n"+strings.TrimPrefix(now, c.want)) {
				t.Errorf("%s: after the undo\n%s\nwant\n%s", name, text, want)
			}
		}
	}
}

// TestNRIRefused: files that the setup cannot change stay as they are.
func TestNRIRefused(t *testing.T) {
	for text, want := range map[string]string{
		"version = 3\n": "version 3: must be 1 or 2",
		"version = -1":  "version -1: must be 1 or 2",
		"version = 2\ndisabled_plugins = ['a', 'io.containerd.nri.v1.nri']\n": "disabled_plugins has \"io.containerd.nri.v1.nri\": remove it",
		"disabled_plugins = ['nri']\n[plugins.nri]\ndisable = false\n":        "disabled_plugins has \"nri\": remove it",
		"imports = ['x.toml']\n": "version 1 with imports",
		"a = [":                  "not TOML",
		"version = 2\n[plugins]\n\"io.containerd.nri.v1.nri\" = {disable = true}\n": "by hand",
		"version = 2\n[plugins.\"io.containerd.nri.v1.nri\"]\n":                     "no disable",
	} {
		dir := t.TempDir()
		s := &Setup{Engine: NRI, File: filepath.Join(dir, "config.toml"), Record: filepath.Join(dir, "setup-nri.json")}
		if err := os.WriteFile(s.File, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(false); !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if now, _ := os.ReadFile(s.File); string(now) != text {
			t.Errorf("%q is changed to %q", text, now)
		}
	}
}
