package hostile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// A forest is the settings of control groups: file to content.
type forest map[string]string

var groupSettings = []string{"cgroup.subtree_control", "cgroup.type", "cpuset.cpus", "cpuset.mems", "cpuset.memory_migrate", "cpuset.cpus.partition",
	"cpu.max", "cpu.max.burst", "cpu.weight", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "freezer.state"}

// mounts are the mount points of the cgroup hierarchies.
func mounts(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		fields, rest, _ := strings.Cut(line, " - ")
		if strings.HasPrefix(rest, "cgroup") {
			found = append(found, strings.Fields(fields)[4])
		}
	}
	return found
}

// readForest reads the settings of the groups at the mount points, and of those below a top group.
func readForest(t *testing.T, top string) forest {
	t.Helper()
	f := forest{}
	read := func(dir string) {
		f[dir] = "group"
		for _, file := range groupSettings {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				f[filepath.Join(dir, file)] = string(text)
			}
		}
	}
	for _, mount := range mounts(t) {
		read(mount)
		filepath.WalkDir(mount+top, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				read(path)
			}
			return nil
		})
	}
	return f
}

// same compares the groups with those before.
func (f forest) same(t *testing.T, when string, after forest) {
	t.Helper()
	names := slices.Collect(maps.Keys(f))
	for name := range after {
		if _, both := f[name]; !both {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if f[name] != after[name] {
			t.Errorf("%s: %s has %q, had %q", when, name, after[name], f[name])
		}
	}
}

// limit creates a group in the hierarchies of Candor and gives it a quota of some CPUs.
func limit(t *testing.T, group string, cpus int) {
	t.Helper()
	for _, mount := range mounts(t) {
		if _, err := os.Stat(mount + "/cgroup.controllers"); err == nil {
			os.WriteFile(mount+"/cgroup.subtree_control", []byte("+cpu +cpuset"), 0)
		}
		dir := mount + group
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(dir) })
		for file, value := range map[string]string{"cpu.max": fmt.Sprintf("%d00000 100000", cpus), "cpu.cfs_quota_us": fmt.Sprintf("%d00000", cpus)} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// move puts the groups of the lab elsewhere, before there are any, and removes the groups above them after the test.
func (l *lab) move(parent string) {
	l.Helper()
	tree, err := cgroup.Open(cgroup.Options{Parent: parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		l.Fatal(err)
	}
	above := filepath.Dir(parent)
	l.parent, l.tree = parent, tree
	l.Cleanup(func() {
		l.remove()
		for dir := above; dir != "/"; dir = filepath.Dir(dir) {
			for _, mount := range mounts(l.T) {
				os.Remove(mount + dir)
			}
		}
	})
}

// refused checks that a command was refused with exit code 2 and one line that has some parts.
func refused(t *testing.T, attack string, got result, parts ...string) {
	t.Helper()
	if got.code != 2 || strings.Count(got.errOut, "\n") != 1 {
		t.Errorf("%s: exit %d\n%s%s", attack, got.code, got.out, got.errOut)
	}
	contains(t, attack, got.errOut, parts...)
}

func contains(t *testing.T, attack, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: want %q in\n%s", attack, part, text)
		}
	}
}
