package fileio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplaceAndRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	old := unix.Umask(0o077)
	err := Replace(name, []byte("one"))
	unix.Umask(old)
	must(t, err)
	must(t, Replace(name, []byte("two")))
	data, err := Read(name, 3)
	if string(data) != "two" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	info, err := os.Stat(name)
	must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	if entries, _ := os.ReadDir(filepath.Dir(name)); len(entries) != 1 {
		t.Errorf("left over: %v", entries)
	}
	if _, err := Read(name, 2); !errors.As(err, new(*TooLongError)) {
		t.Errorf("longer than the limit: %v", err)
	}
}

// TestReplaceFails: a failed write leaves the old file.
func TestReplaceFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	must(t, Replace(name, []byte("old")))
	must(t, os.MkdirAll(filepath.Join(filepath.Dir(name), ".file", "x"), 0o755))
	if err := Replace(name, []byte("new")); err == nil {
		t.Error("no error")
	}
	if data, err := Read(name, 9); string(data) != "old" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestReadRefuses: a file that is not regular is refused at once, with an error that names it.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, unix.Mkfifo(at("pipe"), 0o644))
	must(t, os.Symlink("loop", at("loop")))
	must(t, os.WriteFile(at("plain"), []byte("x"), 0o644))
	must(t, os.Symlink("plain", at("link")))
	for _, name := range []string{at("pipe"), at("loop"), dir, "/dev/zero", at("missing")} {
		if data, err := Read(name, 9); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if data, err := Read(at("link"), 9); string(data) != "x" || err != nil {
		t.Errorf("a link: %q, %v", data, err)
	}
	if _, err := ReadNoLink(at("link"), 9); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link that is refused: %v", err)
	}
	if _, err := Read(at("missing"), 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestMakeDir(t *testing.T) {
	top := t.TempDir()
	name := filepath.Join(top, "a", "b")
	old := unix.Umask(0o077)
	lone := MakeDir(name)
	err := MakeDirs(name)
	unix.Umask(old)
	if !errors.Is(lone, fs.ErrNotExist) {
		t.Errorf("without the folder above: %v", lone)
	}
	must(t, err)
	for _, dir := range []string{name, filepath.Dir(name)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	must(t, os.Chmod(name, 0o700))
	must(t, MakeDir(name))
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o700 {
		t.Errorf("what was there has mode %v now", info.Mode())
	}
}

func TestDecodeStrict(t *testing.T) {
	var v struct{ A int }
	if err := DecodeStrict([]byte(`{"A": 7}`+"\n"), &v); err != nil || v.A != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	for text, want := range map[string]string{"": "empty", `{"B":1}`: "unknown field", `{} {}`: "data after", `{}x`: "data after", `{`: "EOF"} {
		if err := DecodeStrict([]byte(text), &v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
