package fileio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenInRoot(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(outside, "file"), "outside")
	write(filepath.Join(root, "data/file"), "inside")
	for from, to := range map[string]string{
		"absolute": "/data", "above": "../../data", "escape": outside, "file": "data/file",
	} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]struct {
		flags int
		err   error
	}{
		"/data/file":       {},
		"data/file":        {},
		"/absolute/file":   {},
		"/above/file":      {},
		"/../../data/file": {},
		"/file":            {},
		"/data":            {flags: unix.O_DIRECTORY},
		"/escape/file":     {err: fs.ErrNotExist},
		"/none":            {err: fs.ErrNotExist},
		"/data/":           {flags: unix.O_NOFOLLOW},
	} {
		f, err := OpenInRoot(root, path, want.flags)
		if !errors.Is(err, want.err) {
			t.Errorf("%s: %v; want %v", path, err, want.err)
		}
		if at := (*fs.PathError)(nil); err != nil && (!errors.As(err, &at) || at.Path != path) {
			t.Errorf("%s: %v; want the path as it was given", path, err)
		}
		if err == nil {
			f.Close()
		}
	}
	if _, err := OpenInRoot(root, "/file", unix.O_NOFOLLOW); !errors.Is(err, unix.ELOOP) {
		t.Errorf("link: %v; want ELOOP", err)
	}
	f, err := OpenInRoot(root, "/absolute/file", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := ReadOpen(f, 6); err != nil || string(text) != "inside" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := OpenInRoot(filepath.Join(root, "none"), "/x", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no root: %v", err)
	}
}
