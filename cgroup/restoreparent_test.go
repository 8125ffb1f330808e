package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

// settingFiles are the kernel's files that Candor writes, and those that the kernel changes with them.
var settingFiles = []string{subtreeFile, "cgroup.type", procsFile, cpusFile, memsFile, "cpuset.memory_migrate", string(ConfineToPartition),
	"cpu.max", "cpu.max.burst", "cpu.weight", quotaV1, periodV1, burstV1, "cpu.shares", "freezer.state"}

// contents returns the settings of the groups at, below and above path, as a map from file to content.
func contents(t *testing.T, tr *Tree, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(dir string) error {
		all[dir] = "group"
		for _, file := range settingFiles {
			if file == procsFile && !strings.Contains(dir, path) {
				continue // the root: foreign processes start and end in it
			}
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				all[filepath.Join(dir, file)] = string(text)
			}
		}
		return nil
	}
	for _, h := range tr.all {
		for dir := h.mount + path; dir != h.mount; dir = filepath.Dir(dir) {
			if is, _ := isGroup(dir); is {
				must(t, add(dir))
			}
		}
		must(t, add(h.mount))
		must(t, h.walk(h.mount+path, add))
	}
	return all
}

// sameContents checks that the settings before and after are equal.
func sameContents(t *testing.T, when string, before, after map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			t.Errorf("%s: %s has %q, had %q", when, name, after[name], before[name])
		}
	}
	for name := range before {
		if _, is := after[name]; !is {
			t.Errorf("%s: %s was removed", when, name)
		}
	}
}

// TestFailedCreate injects a fault into each write and each new group of Create in turn. After each failure
// all groups have their earlier settings, whichever groups above existed.
func TestFailedCreate(t *testing.T) {
	for _, existing := range []string{"", "/upper", "/upper/candor"} {
		t.Run("with "+existing, func(t *testing.T) {
			outer := tree(t)
			a, _ := two(t, outer)
			if existing != "" {
				upper := treeBelow(t, outer.parent+existing, Cgroupfs)
				_, err := upper.makeParent()
				must(t, err)
				// An administrator may have limited the group: Candor's parent has all CPUs only while Candor runs.
				if !upper.cpuset.v2 {
					must(t, upper.writeSet(upper.cpuset.parent, cpusFile, a))
				}
			}
			tr := treeBelow(t, outer.parent+"/upper/candor", Cgroupfs)
			pid := start(t, "sleep").pid()
			settings := Settings{CPUs: a, Quota: 50 * time.Millisecond, Burst: 10 * time.Millisecond, Weight: 1200}
			if existing == "/upper" && !tr.cpuset.v2 { // a group that was never set up
				must(t, write(outer.cpuset.parent+existing, cpusFile, "\n"))
			}
			before := contents(t, tr, outer.parent)
			for n := 0; ; n++ {
				failed, err := failAt(n, func() error { return tr.Group("web").Create(settings, pid) })
				if failed == "" {
					must(t, err)
					if n < 8 {
						t.Errorf("a Create with %d writes", n)
					}
					break
				}
				if !errors.Is(err, unix.EIO) {
					t.Errorf("%s: %v", failed, err)
				}
				sameContents(t, failed, before, contents(t, tr, outer.parent))
			}
			must(t, tr.Group("web").End())
			must(t, tr.RestoreParent())
			sameContents(t, "RestoreParent", before, contents(t, tr, outer.parent))
		})
	}
}

// failAt calls do and makes its n-th change of a cgroup fail. It returns the failed change, empty if do made
// fewer changes.
func failAt(n int, do func() error) (failed string, err error) {
	remove := kernelfs.InjectFault(func(access kernelfs.Access, path string) error {
		if access != kernelfs.WriteAccess && access != kernelfs.CreateAccess {
			return nil
		}
		if n--; n != -1 {
			return nil
		}
		failed = fmt.Sprintf("%s %s", access, path)
		return unix.EIO
	})
	defer remove()
	err = do()
	return failed, err
}

// TestRestoreParentInUse: RestoreParent keeps the group of another run, and controllers that another group
// uses.
func TestRestoreParentInUse(t *testing.T) {
	outer := tree(t)
	a, _ := two(t, outer)
	tr := treeBelow(t, outer.parent+"/candor", Cgroupfs)
	must(t, tr.Group("web").Create(Settings{CPUs: a}, 0))
	other, err := Open(Options{Parent: tr.parent, Driver: Cgroupfs})
	must(t, err)
	must(t, other.Group("log").Create(Settings{CPUs: a, Quota: 20 * time.Millisecond}, 0))
	must(t, tr.Group("web").Remove())
	must(t, tr.RestoreParent())
	if s, err := other.Group("log").Settings(); err != nil || s.CPUs != a || s.Quota != 20*time.Millisecond {
		t.Errorf("the other run's group has %+v, %v", s, err)
	}
	must(t, other.Group("log").Remove())
	must(t, tr.Remove())
	if !tr.cpu.v2 {
		return
	}
	must(t, tr.Group("web").Create(Settings{CPUs: a}, 0))
	beside := outer.cpu.parent + "/beside"
	must(t, os.Mkdir(beside, 0o755))
	defer unix.Rmdir(beside)
	must(t, write(beside, "cpu.max", "20000 100000"))
	must(t, tr.Group("web").Remove())
	must(t, tr.RestoreParent())
	if has, err := read(beside, "cpu.max"); err != nil || string(has) != "20000 100000" {
		t.Errorf("the group beside has cpu.max %q, %v", has, err)
	}
	if is, _ := isGroup(tr.cpu.parent); is {
		t.Errorf("%s is left", tr.cpu.parent)
	}
}

// TestNamespaceRoot: cgroup v2 enables no controllers below a group with processes, such as the root of a
// container's cgroup namespace. Create refuses before it writes anything.
func TestNamespaceRoot(t *testing.T) {
	outer := tree(t)
	if !outer.cpu.v2 {
		t.Skip("v1 has no such rule")
	}
	a, _ := two(t, outer)
	_, err := outer.makeParent()
	must(t, err)
	root := outer.cpu.parent + "/container"
	must(t, os.Mkdir(root, 0o755))
	defer unix.Rmdir(root)
	child := start(t, "sleep")
	must(t, attach(root, child.pid()))
	before := contents(t, outer, outer.parent)
	refused := func(when string, tr *Tree, parts ...string) {
		t.Helper()
		err := tr.Group("web").Create(Settings{CPUs: a}, start(t, "sleep").pid())
		if !errors.Is(err, ErrNotDelegated) {
			t.Errorf("%s: %v", when, err)
			return
		}
		for _, part := range append(parts, "not delegated") {
			if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q in it", when, err, part)
			}
		}
	}
	tr, err := Open(Options{Parent: outer.parent + "/container/candor", Driver: Cgroupfs})
	must(t, err)
	refused("processes in the group above", tr, outer.parent+"/container", "move them into a child", root+"/init")
	for _, h := range tr.all { // as in a cgroup namespace
		h.mount, h.parent = root, root+"/candor"
	}
	refused("processes in the root of the namespace", tr, "/ (the root of this cgroup namespace", root+"/init")
	sameContents(t, "refused", before, contents(t, outer, outer.parent))

	must(t, os.Mkdir(root+"/init", 0o755))
	must(t, attach(root+"/init", child.pid()))
	pid := start(t, "sleep").pid()
	must(t, tr.Group("web").Create(Settings{CPUs: a}, pid))
	must(t, tr.Group("web").End())
	must(t, tr.RestoreParent())
	child.in.Close()
	child.Wait()
	eventually(t, "the container's groups are removed", func() bool { return unix.Rmdir(root+"/init") != unix.EBUSY })
	must(t, os.Mkdir(root+"/threads", 0o755))
	defer unix.Rmdir(root + "/threads")
	must(t, write(root+"/threads", "cgroup.type", "threaded"))
	before = contents(t, outer, outer.parent)
	refused("threaded", tr, "its type is", "--cgroup-parent")
	sameContents(t, "threaded", before, contents(t, outer, outer.parent))
}

// TestParentRemovedMeanwhile removes the group above Candor's parent while Create makes the parent, as a
// failed run with another parent does. Create must succeed nevertheless.
func TestParentRemovedMeanwhile(t *testing.T) {
	outer := tree(t)
	a, _ := two(t, outer)
	tr := treeBelow(t, outer.parent+"/candor", Cgroupfs)
	removed := 0
	remove := kernelfs.InjectFault(func(access kernelfs.Access, path string) error {
		if access != kernelfs.CreateAccess || path != tr.cpuset.parent || removed == 3 {
			return nil
		}
		removed++
		return errors.Join(unix.ENOENT, unix.Rmdir(outer.cpuset.parent))
	})
	defer remove()
	must(t, tr.Group("web").Create(Settings{CPUs: a}, 0))
	if removed != 3 {
		t.Errorf("the group above was removed %d times, want 3", removed)
	}
}
