package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// helperTree returns a tree that can place helpers, or skips the test.
func helperTree(t *testing.T) *Tree {
	t.Helper()
	tr := tree(t)
	if !tr.placesHelpers() {
		t.Skip(ErrNoPlacement)
	}
	return tr
}

// placed starts a helper of a group in a group of its own, as an engine does, and places it.
func placed(t *testing.T, tr *Tree, g *Group) (pid int, origin []string) {
	t.Helper()
	pid = start(t, "idle").pid()
	engine, _ := group(t, tr, "engine", Settings{CPUs: first(t, tr)}, "")
	must(t, engine.Enter(pid))
	origin, err := tr.groupDirsOf(pid)
	must(t, err)
	must(t, g.PlaceHelper(pid))
	return pid, origin
}

func first(t *testing.T, tr *Tree) (one cpuset.Set) {
	t.Helper()
	cpus, _, err := tr.Effective()
	must(t, err)
	return cpus.Lowest(1)
}

// TestPlaceHelper: a placed helper is in the group's hierarchies of cpu and cpuacct only, and is no process of the group. It returns when
// the group is removed.
func TestPlaceHelper(t *testing.T) {
	tr := helperTree(t)
	g, _ := group(t, tr, "web", Settings{CPUs: first(t, tr)}, "")
	helper, origin := placed(t, tr, g)
	dirs, err := tr.groupDirsOf(helper)
	must(t, err)
	for i, h := range tr.all {
		want := origin[i]
		if slices.Contains(tr.helperHierarchies(), h) {
			want = g.dir(h) + "/" + helperBase
		}
		if dirs[i] != want {
			t.Errorf("the helper is in %s, want %s", dirs[i], want)
		}
	}
	program := start(t, "idle").pid()
	must(t, g.Enter(program))
	if pids, err := g.Processes(); err != nil || !slices.Equal(pids, []int{program}) {
		t.Errorf("processes %v, %v; want %d", pids, err, program)
	}
	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("removed with a process: %v", err)
	}
	must(t, g.End())
	if dirs, err = tr.groupDirsOf(helper); err != nil || !slices.Equal(dirs, origin) {
		t.Errorf("after the end the helper is in %v, %v; want %v", dirs, err, origin)
	}
	if is, err := g.Exists(); is || err != nil {
		t.Errorf("the group remains: %v", err)
	}
}

// TestReturnHelpers: helpers return twice without an error, and to the root if their group is gone. A process of the container that moved
// itself to the nested group still counts.
func TestReturnHelpers(t *testing.T) {
	tr := helperTree(t)
	g, _ := group(t, tr, "web", Settings{CPUs: first(t, tr)}, "")
	hidden := start(t, "idle").pid()
	must(t, g.Enter(hidden))
	must(t, g.PlaceHelper(hidden))
	if is, err := g.Contains(hidden); !is || err != nil {
		t.Errorf("a process of the container is hidden: %v", err)
	}
	for range 2 {
		must(t, g.ReturnHelpers())
	}
	for _, dir := range g.helperDirs() {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s remains: %v", dir, err)
		}
		if pids, err := processesIn(filepath.Dir(dir)); err != nil || !slices.Contains(pids, hidden) {
			t.Errorf("%s has processes %v, %v; want %d", filepath.Dir(dir), pids, err, hidden)
		}
	}
	if err := tr.Group("none").PlaceHelper(hidden); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a missing group: %v", err)
	}
	if err := tr.EngineGroup("other", "/docker/other").PlaceHelper(hidden); err == nil {
		t.Error("a foreign group was accepted")
	}
}
