package cgroup

import (
	"os"
	"slices"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestPaths: Paths lists the groups with processes, parents before nested groups. PathOf returns the group of
// a process.
func TestPaths(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	web, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	group(t, tr, "empty", Settings{CPUs: a}, "")
	want := tr.parent + "/web"
	if got, err := tr.PathOf(pid); err != nil || got != want {
		t.Errorf("PathOf = %q, %v; want %q", got, err, want)
	}
	if _, err := tr.PathOf(1 << 30); err == nil {
		t.Error("a missing process has a group")
	}
	paths, err := tr.Paths()
	if err != nil || !slices.Contains(paths, want) || slices.Contains(paths, tr.parent+"/empty") || slices.Contains(paths, "/") {
		t.Errorf("all groups: %q, %v", paths, err)
	}
	if tr.Version() == 2 {
		return // v2: a group has processes or child groups, not both
	}
	inner := web.dir(tr.cpu) + "/inner"
	must(t, os.Mkdir(inner, 0o755))
	nest(t, web, "inner", cpuset.Set{})
	must(t, attach(inner, start(t, "sleep").pid()))
	paths, err = tr.Paths()
	if err != nil || slices.Index(paths, want+"/inner") < slices.Index(paths, want) {
		t.Errorf("all groups: %q, %v", paths, err)
	}
}
