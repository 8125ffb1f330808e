package engine

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestUndoKeepsLaterChanges: Undo keeps edits that were made after Apply.
func TestUndoKeepsLaterChanges(t *testing.T) {
	tests := []struct {
		engine         Engine
		text, old, new string // after Apply, old is replaced by new
		want           string
	}{
		{Docker, `{"default-runtime":"x"}`, `"runtimes"`, `"debug": true, "runtimes"`, "{\n  \"default-runtime\": \"x\",\n  \"debug\": true\n}\n"},
		{Docker, `{"runtimes":{}}`, `"default-runtime": "candor"`, `"default-runtime": "y"`, "{\n  \"runtimes\": {},\n  \"default-runtime\": \"y\"\n}\n"},
		{Docker, `{"default-runtime":"x","runtimes":{"x":{"path":"/x"}}}`, "\"x\": {\n      \"path\": \"/x\"\n    },", "", "{\n  \"runtimes\": {}\n}\n"}, // Docker could not start with x as the default
		{Docker, `{"default-runtime":"candor"}`, `"runtimes"`, `"debug": true, "runtimes"`, "{\n  \"debug\": true\n}\n"},
		{Docker, `{"default-runtime":"x"}`, `"default-runtime": "candor"`, `"default-runtime": "candor-flexible"`, "{\n  \"default-runtime\": \"x\"\n}\n"},
		{Docker, `{}`, `"/bin/candor-flexible-runc"`, `"/bin/mine"`, "{\n  \"runtimes\": {\n    \"candor-flexible\": {\n      \"path\": \"/bin/mine\"\n    }\n  }\n}\n"},
		{Docker, `{}`, `"/bin/candor-runc"`, `"/bin/mine"`, "{\n  \"runtimes\": {\n    \"candor\": {\n      \"path\": \"/bin/mine\"\n    }\n  },\n  \"default-runtime\": \"candor\"\n}\n"},
		{Docker, `{}`, `/bin/candor-`, `/opt/candor-`, "{}\n"},
		{Podman, "[a]\n", "[a]\n", "[a]\nb = 1\n", "[a]\nb = 1\n"},
		{Containerd, "version = 2\n", end, end + "\n[debug]", "version = 2\n[debug]\n"},
	}
	for _, test := range tests {
		s := newSetup(t, test.engine, test.text)
		s.Default = test.engine.Name == "docker"
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		edited := strings.ReplaceAll(s.now(t), test.old, test.new)
		if edited == s.now(t) {
			t.Fatalf("%q is not in %s", test.old, edited)
		}
		if err := os.WriteFile(s.File, []byte(edited), 0o644); err != nil {
			t.Fatal(err)
		}
		s.Default = false
		if _, err := s.Undo(false); err != nil || s.now(t) != test.want {
			t.Errorf("%s\n%s\nafter Undo:\n%s(%v), want\n%s", test.engine.Name, edited, s.now(t), err, test.want)
		}
	}
}

// TestOldRecord: the file was replaced without an undo. The next Apply writes a new record, and its Undo
// restores the replaced file.
func TestOldRecord(t *testing.T) {
	for _, test := range []struct {
		engine     Engine
		then, want string // the file after the first Apply, and after the second Apply and its Undo
	}{
		{Docker, `{"default-runtime": "new"}`, `{"default-runtime": "new"}`},
		{Docker, "", ""},
		{Podman, "[b]\n", "[b]\n"},
		{Containerd, "version = 3\n", "version = 3\n"},
	} {
		s := newSetup(t, test.engine, map[string]string{"docker": `{"default-runtime": "old"}`, "podman": "[a]\n", "containerd": "version = 2\n"}[test.engine.Name])
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		err := os.Remove(s.File)
		if test.then != "" {
			err = os.WriteFile(s.File, []byte(test.then), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Undo(false); err != nil || s.now(t) != test.want {
			t.Errorf("%s: %q %v, want %q", test.engine.Name, s.now(t), err, test.want)
		}
	}
}

// TestUndoWithoutRuntimes: Candor's runtimes were already removed by hand. Undo removes the record, and an
// empty file that Apply has created.
func TestUndoWithoutRuntimes(t *testing.T) {
	for then, want := range map[string]Change{"": {}, "{}": {Gone: true}, `{"debug":true}`: {}} {
		s := newSetup(t, Docker, "")
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		err := os.Remove(s.File)
		if then != "" {
			err = os.WriteFile(s.File, []byte(then), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		left := s.now(t)
		if want.Gone {
			left = ""
		}
		if c, err := s.Undo(true); err != nil || c.Gone != want.Gone || c.Nothing() == want.Gone || s.now(t) != then {
			t.Errorf("%q: dry run: %+v %v, the file is %q", then, c, err, s.now(t))
		}
		if _, err := os.Stat(s.Record); err != nil {
			t.Errorf("dry run removed the record: %v", err)
		}
		if c, err := s.Undo(false); err != nil || c.Gone != want.Gone || c.Nothing() == want.Gone || s.now(t) != left {
			t.Errorf("%q: %+v %v, the file is %q", then, c, err, s.now(t))
		}
		if _, err := os.Stat(s.Record); err == nil {
			t.Error("the record was not removed")
		}
	}
}

// TestUndoWithoutRecord: without a record, Undo restores TOML by Candor's comments in the file. For JSON it
// returns an error.
func TestUndoWithoutRecord(t *testing.T) {
	for _, engine := range []Engine{Docker, Podman, Containerd} {
		s := newSetup(t, engine, map[string]string{"docker": "{}", "podman": "[a]\n", "containerd": "version = 2\n"}[engine.Name])
		before := s.now(t)
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		with := s.now(t)
		if err := os.Remove(s.Record); err != nil {
			t.Fatal(err)
		}
		_, err := s.Undo(false)
		if engine.Name == "docker" {
			if !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), "is missing: remove candor's runtimes by hand") || s.now(t) != with {
				t.Errorf("%v, the file is %q", err, s.now(t))
			}
		} else if err != nil || s.now(t) != before {
			t.Errorf("%s: %v, the file is %q", engine.Name, err, s.now(t))
		}
	}
}

// TestUndoOfDefault: a user has set Candor's runtime as the default. Undo resets Docker to its built-in
// default. For the other engines it is refused until the default changes.
func TestUndoOfDefault(t *testing.T) {
	s := newSetup(t, Docker, `{"default-runtime": "candor"}`)
	if _, err := s.Apply(false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Undo(false); err != nil || s.now(t) != "{}\n" {
		t.Errorf("%q %v", s.now(t), err)
	}
	for _, test := range []struct {
		engine    Engine
		text, key string
	}{
		{Containerd, "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'candor'\n", "default_runtime_name"},
		{Containerd, "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'candor-flexible'\n", "default_runtime_name"},
		{Podman, "[engine]\nruntime = 'candor'\n", "runtime"},
	} {
		s := newSetup(t, test.engine, test.text)
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		with := s.now(t)
		if _, err := s.Undo(false); !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), ": "+test.key+` is "candor`) || s.now(t) != with {
			t.Errorf("%s: %v, the file is\n%s", test.engine.Name, err, s.now(t))
		}
		other := strings.NewReplacer("'candor'", "'runc'", "'candor-flexible'", "'runc'").Replace(with)
		if err := os.WriteFile(s.File, []byte(other), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Undo(false); err != nil || strings.Contains(s.now(t), "candor") {
			t.Errorf("%s: %v, the file is\n%s", test.engine.Name, err, s.now(t))
		}
	}
}
