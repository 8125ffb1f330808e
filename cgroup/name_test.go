package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, name := range []string{"web", "7", "web.1", "cpu", "cgroup", "cpus.1", "Tasks", "my-tasks", "a_b-c.d", long} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "-x", ".x", "a/b", "a b", "ü", long + "x", "tasks", "notify_on_release",
		"release_agent", "cgroup.procs", "cpu.shares", "cpu.", "cpuset.cpus", "memory.max", "io.stat", "freezer.state"} {
		if err := CheckName(name); err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestCheckNameKernelFiles: CheckName refuses the name of each file that this kernel has in a cgroup.
func TestCheckNameKernelFiles(t *testing.T) {
	found, err := findHierarchies("/")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, h := range found {
		err := filepath.WalkDir(h.mount, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // the group was removed
				return nil
			case err != nil:
				return err
			case d.IsDir() && filepath.Dir(path) != filepath.Clean(h.mount) && path != h.mount:
				return fs.SkipDir
			case d.Type().IsRegular():
				files++
				if CheckName(d.Name()) == nil {
					t.Errorf("CheckName accepts the name of the kernel's file %s", path)
				}
			}
			return nil
		})
		if err != nil && !os.IsPermission(err) {
			t.Fatal(err)
		}
	}
	if files == 0 {
		t.Skip("no cgroup is mounted here")
	}
}
