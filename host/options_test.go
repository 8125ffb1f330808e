package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
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

// What is no file of options is one line that names it, and no wait.
func TestOptionsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(unix.Mkfifo(at("pipe"), 0o644), os.Symlink("loop", at("loop")), os.Mkdir(at("folder"), 0o755),
		os.WriteFile(at("empty"), nil, 0o644), os.WriteFile(at("typo"), []byte(`{"reservd":"0"}`), 0o644),
		os.WriteFile(at("huge"), make([]byte, 1<<17), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"pipe": "not a plain file", "loop": "too many levels of symbolic links", "folder": "not a plain file",
		"empty": "empty", "typo": "unknown field", "huge": "more than 65536 bytes",
	} {
		_, err := LoadOptions(at(name))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), at(name)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
