package cgroup

import (
	"os"
	"slices"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestPaths: a group with a process is in the list of paths and is the group of this process; a group without
// processes is not listed. Nested groups follow their parents.
func TestPaths(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	web, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	group(t, tr, "empty", Settings{CPUs: a}, "")
	want := tr.parent + "/web"
	if got, err := tr.PathOf(pid); err != nil || got != want {
		t.Errorf("of its process: %q, %v; want %q", got, err, want)
	}
	if _, err := tr.PathOf(1 << 30); err == nil {
		t.Error("a process that is not there has a group")
	}
	paths, err := tr.Paths()
	if err != nil || !slices.Contains(paths, want) || slices.Contains(paths, tr.parent+"/empty") || slices.Contains(paths, "/") {
		t.Errorf("all groups: %q, %v", paths, err)
	}
	if tr.Version() == 2 {
		return // a group has processes or groups
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
