package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestApplyConcurrentEdit: another program edits the file while candor computes the change. Apply returns an
// error and does not overwrite the edit.
func TestApplyConcurrentEdit(t *testing.T) {
	for _, before := range []string{"", `{"debug":true}`} {
		const edit = `{"debug":false}`
		s := newSetup(t, Docker, before)
		s.Engine.add = func(text []byte, s *Setup) ([]byte, error) {
			if err := os.MkdirAll(filepath.Dir(s.File), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.File, []byte(edit), 0o644); err != nil {
				t.Fatal(err)
			}
			return addToDocker(text, s)
		}
		_, err := s.Apply(false)
		if !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), "another process has just changed it") || s.now(t) != edit {
			t.Errorf("%q: %v, the file is %q", before, err, s.now(t))
		}
		s.onlyFile(t)
	}
}

// TestUndoConcurrentEdit: another program edits the file during an undo. The undo returns an error, and the
// next undo keeps the edit.
func TestUndoConcurrentEdit(t *testing.T) {
	for _, before := range []string{"", `{"debug":true}`} {
		s := newSetup(t, Docker, before)
		if _, err := s.Apply(false); err != nil {
			t.Fatal(err)
		}
		edit := strings.Replace(s.now(t), "{", `{"experimental":true,`, 1)
		s.Engine.has = func(text []byte, s *Setup) (bool, error) {
			if err := os.WriteFile(s.File, []byte(edit), 0o644); err != nil {
				t.Fatal(err)
			}
			return hasDocker(text, s)
		}
		if _, err := s.Undo(false); !errors.Is(err, ErrBadFile) || s.now(t) != edit {
			t.Errorf("%q: %v, the file is %q", before, err, s.now(t))
		}
		s.Engine = Docker
		if _, err := s.Undo(false); err != nil || !strings.Contains(s.now(t), "experimental") || strings.Contains(s.now(t), "candor") {
			t.Errorf("%q: undone: %v, the file is %q", before, err, s.now(t))
		}
	}
}

// TestReadOnly: on a read-only file system, Apply returns an error and no temporary file remains.
func TestReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts: needs root")
	}
	s := newSetup(t, Docker, "{}")
	dir := filepath.Dir(s.File)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounts: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.WriteFile(s.File, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(false); !errors.Is(err, unix.EROFS) || s.now(t) != "{}" {
		t.Errorf("%v, the file is %q", err, s.now(t))
	}
	s.onlyFile(t)
}

// TestDanglingLink: Apply and Undo refuse a symbolic link to a missing file, and do not create its target.
func TestDanglingLink(t *testing.T) {
	s := newSetup(t, Docker, "{}")
	target := s.File + ".real"
	if err := errors.Join(os.Remove(s.File), os.Symlink(target, s.File)); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(bool) (Change, error){s.Apply, s.Undo} {
		if _, err := do(false); !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), "a link to a missing file") {
			t.Error(err)
		}
	}
	if link, err := os.Readlink(s.File); err != nil || link != target {
		t.Errorf("the link is %q: %v", link, err)
	}
	s.onlyFile(t)
}

// onlyFile fails the test if the record exists, or if the directory has files besides the configuration.
func (s *Setup) onlyFile(t *testing.T) {
	t.Helper()
	if _, err := os.Lstat(s.Record); err == nil {
		t.Error("the record was not removed")
	}
	entries, err := os.ReadDir(filepath.Dir(s.File))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v), want only the configuration", entries, err)
	}
}
