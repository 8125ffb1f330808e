package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// makeGroup makes a directory that contains file, like the directory of a cgroup.
func makeGroup(t *testing.T, dir, file, content string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// walkAll returns the processes that a walk visits, and its error.
func walkAll(dir string, groups int) (pids []int, err error) {
	w := processWalk{groups: groups, visit: func(pid int) bool { pids = append(pids, pid); return true }}
	err = w.walk(dir)
	return pids, err
}

// TestWalkBounds: a walk over too many groups ends with an error; a search ends at the first match.
func TestWalkBounds(t *testing.T) {
	dir := t.TempDir()
	makeGroup(t, dir, procsFile, "")
	for i := range 50 {
		makeGroup(t, fmt.Sprintf("%s/%03d/a", dir, i), procsFile, "")
		makeGroup(t, fmt.Sprintf("%s/%03d", dir, i), procsFile, fmt.Sprintf("%d\n", 1000+i))
	}
	if pids, err := walkAll(dir, 101); err != nil || len(pids) != 50 {
		t.Errorf("%d processes, %v; want 50", len(pids), err)
	}
	if pids, err := walkAll(dir, 20); !errors.Is(err, ErrTooMany) || len(pids) != 10 {
		t.Errorf("20 groups: %d processes, %v; want 10 and ErrTooMany", len(pids), err)
	}
	w := processWalk{groups: 3, visit: func(int) bool { return false }}
	if err := w.walk(dir); err != nil || !w.isDone {
		t.Errorf("the first process: %v, done %v", err, w.isDone)
	}
}

// TestProcessesIn: processesIn truncates a list of more than MaxProcesses processes, and refuses an invalid
// line.
func TestProcessesIn(t *testing.T) {
	dir := t.TempDir()
	makeGroup(t, dir, procsFile, strings.Repeat("7\n", MaxProcesses+1000))
	if pids, err := processesIn(dir); err != nil || len(pids) != MaxProcesses {
		t.Errorf("%d processes, %v; want %d", len(pids), err, MaxProcesses)
	}
	for _, bad := range []string{"x\n", "-1\n", "\n"} {
		makeGroup(t, dir, procsFile, "1\n"+bad)
		if pids, err := processesIn(dir); err == nil {
			t.Errorf("%q: %v", bad, pids)
		}
	}
}

// TestTooDeep: a walk skips only groups beyond PATH_MAX, which a process can create with relative paths.
func TestTooDeep(t *testing.T) {
	top := t.TempDir()
	makeGroup(t, top, procsFile, "1\n")
	makeGroup(t, top+"/z", procsFile, "2\n")
	t.Chdir(top)
	name := strings.Repeat("d", 250)
	for range 20 {
		makeGroup(t, name, procsFile, "3\n")
		if err := os.Chdir(name); err != nil {
			t.Fatal(err)
		}
	}
	pids, err := walkAll(top, maxGroups)
	if err != nil || len(pids) < 12 || len(pids) > 20 || pids[0] != 1 || pids[len(pids)-1] != 2 {
		t.Errorf("%v, %v; want 1, some 3s, 2", pids, err)
	}
	visited := 0
	h := hierarchy{mount: top}
	if err := h.walk(top, func(string) error { visited++; return nil }); err != nil || visited < 12 || visited > 20 {
		t.Errorf("%d groups, %v", visited, err)
	}
	m := nestedMoveV2{tree: &Tree{}, file: cpusFile, remainingGroups: 100}
	if err := m.moveBelow(top); err != nil {
		t.Errorf("nestedMoveV2: %v", err)
	}
}

// memoryDir returns a directory on tmpfs, because thousands of directories take seconds on a disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "candor-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestSubgroupsBound(t *testing.T) {
	dir := memoryDir(t)
	for i := range maxGroups + 300 {
		if err := os.Mkdir(fmt.Sprintf("%s/%05d", dir, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if dirs, err := subgroups(dir); err != nil || len(dirs) < maxGroups || len(dirs) > maxGroups+256 {
		t.Errorf("%d groups, %v; want about %d", len(dirs), err, maxGroups)
	}
}

// TestNestedMoveV2Bound: a move of a container on v2 writes a bounded number of nested groups. The kernel
// limits the other nested groups.
func TestNestedMoveV2Bound(t *testing.T) {
	dir := memoryDir(t)
	for i := range 2 * maxQuickGroups {
		makeGroup(t, fmt.Sprintf("%s/%05d", dir, i), cpusFile, "0-3\n")
	}
	m := nestedMoveV2{tree: &Tree{}, file: cpusFile, old: cpuset.Of(0, 1, 2, 3), next: cpuset.Of(0, 1), remainingGroups: maxQuickGroups}
	if err := m.moveBelow(dir); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i := range 2 * maxQuickGroups {
		if text, _ := os.ReadFile(fmt.Sprintf("%s/%05d/%s", dir, i, cpusFile)); string(text) == "0-1\n" {
			moved++
		}
	}
	if moved != maxQuickGroups {
		t.Errorf("%d groups were moved, want %d", moved, maxQuickGroups)
	}
}

// TestAnyOfFirst: a search by AnyOfFirst ends after a bounded number of groups, without an error if it finds a process.
func TestAnyOfFirst(t *testing.T) {
	dir := memoryDir(t)
	makeGroup(t, dir, procsFile, "7\n")
	for i := range maxQuickGroups {
		makeGroup(t, fmt.Sprintf("%s/%05d", dir, i), procsFile, fmt.Sprintf("%d\n", 1000+i))
	}
	h := &hierarchy{mount: filepath.Dir(dir), v2: true}
	g := &Group{tree: &Tree{all: []*hierarchy{h}}, path: "/" + filepath.Base(dir)}
	visited := 0
	found, err := g.AnyOfFirst(func(int) bool { visited++; return false })
	if found || !errors.Is(err, ErrTooMany) || visited != maxQuickGroups {
		t.Errorf("no match: %v, %v, %d processes; want ErrTooMany after %d", found, err, visited, maxQuickGroups)
	}
	if found, err := g.AnyOfFirst(func(pid int) bool { return pid == 7 }); !found || err != nil {
		t.Errorf("the first process: %v, %v", found, err)
	}
	visited = 0
	if found, err := g.AnyProcess(func(int) bool { visited++; return false }); found || err != nil || visited != maxQuickGroups+1 {
		t.Errorf("AnyProcess: %v, %v, %d processes; want %d", found, err, visited, maxQuickGroups+1)
	}
}

// TestFindProcess searches a group whose only process is in a nested group.
func TestFindProcess(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	if pid, err := g.FirstProcess(); pid != 0 || err != nil {
		t.Errorf("an empty group: process %d, %v", pid, err)
	}
	inside, outside := start(t, "sleep").pid(), start(t, "sleep").pid()
	must(t, attach(nest(t, g, "nested", a), inside))
	if pid, err := g.FirstProcess(); pid != inside || err != nil {
		t.Errorf("process %d, %v; want %d", pid, err, inside)
	}
	for pid, want := range map[int]bool{inside: true, outside: false} {
		if has, err := g.Contains(pid); has != want || err != nil {
			t.Errorf("process %d: %v, %v; want %v", pid, has, err, want)
		}
	}
	if pids, err := g.Processes(); err != nil || len(pids) != 1 || pids[0] != inside {
		t.Errorf("%v, %v; want %d", pids, err, inside)
	}
	if is, err := g.Populated(); !is || err != nil {
		t.Errorf("populated: %v, %v", is, err)
	}
	none := tr.Group("none")
	if pid, err := none.FirstProcess(); pid != 0 || !errors.Is(err, ErrNoGroup) {
		t.Errorf("no group: process %d, %v", pid, err)
	}
	if _, err := none.Contains(inside); !errors.Is(err, ErrNoGroup) {
		t.Errorf("no group: %v", err)
	}
}
