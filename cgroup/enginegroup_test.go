package cgroup

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestCheckEngineGroup: CheckEngineGroup refuses a group at, below or above Candor's parent group in any form
// of a cgroupsPath, and accepts groups beside it.
func TestCheckEngineGroup(t *testing.T) {
	own := &hierarchy{mount: "/nowhere", parent: "/nowhere/a/candor"}
	slice := &hierarchy{mount: "/nowhere", parent: "/nowhere/candor.slice"}
	for _, test := range []struct {
		on      *hierarchy
		path    string
		refused bool
	}{
		{own, "/a/candor", true},
		{own, "/a/candor/abc", true},
		{own, "/a/candor/web/docker/abc", true},
		{own, "//a///candor/./abc", true},
		{own, "/x/../a/candor/abc", true},
		{own, "/../a/candor/abc", true},
		{own, "a/candor/abc", true}, // crun resolves a relative path from the mount point
		{own, "../../a/candor/abc", true},
		{own, "/a", true},
		{own, "/", true},
		{own, "", false}, // a group named after the container
		{own, "/a/candor2/abc", false},
		{own, "/a/b", false},
		{own, "/candor/abc", false},
		{own, "/a/candor/../abc", false},
		{own, "/kubepods/pod1/abc", false},
		{own, "candor.slice:docker:abc", false},
		{slice, "candor.slice:docker:abc", true},
		{slice, "candor.slice:candor:web", true},
		{slice, "candor.slice::candor.slice", true},
		{slice, "candor-x.slice:docker:abc", true},
		{slice, "/candor.slice/abc", true}, // an engine with cgroupfs
		{slice, "system.slice:docker:abc", false},
		{slice, "candors.slice:docker:abc", false},
		{slice, ":libpod:abc", false},
		{slice, "no slice:docker:abc", false}, // the runtime refuses it
	} {
		tr := &Tree{cpu: test.on, cpuset: test.on, all: []*hierarchy{test.on}, proc: "/nowhere"}
		err := tr.CheckEngineGroup(test.path)
		if errors.Is(err, ErrOwnGroup) != test.refused || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q, with Candor's groups in %s: %v; refused: want %t", test.path, test.on.parent, err, test.refused)
		}
	}
	long := &Tree{cpu: own, cpuset: own, all: []*hierarchy{own}, proc: "/nowhere"}
	if err := long.CheckEngineGroup("/a/candor/" + strings.Repeat("x\n", 5000)); err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
		t.Errorf("a long path: %v", err)
	}
}

// TestCheckEngineGroupOtherState: a group in the parent of another state belongs to that state. A relative
// path counts from the group of this process, as in runc.
func TestCheckEngineGroupOtherState(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	group(t, owned(t, tr, "/run/first"), "web", Settings{CPUs: a}, "")
	other := treeBelow(t, tr.parent+"-other", Cgroupfs)
	for path, refused := range map[string]bool{tr.parent + "/abc": true, tr.parent + "/web/abc": false, "/docker/abc": false} {
		if err := other.CheckEngineGroup(path); errors.Is(err, ErrOwnGroup) != refused {
			t.Errorf("%s, in the parent of another state: %v; refused: want %t", path, err, refused)
		}
	}
	before, err := tr.groupDirsOf(os.Getpid())
	must(t, err)
	must(t, tr.Group("web").Enter(os.Getpid()))
	t.Cleanup(func() {
		for _, dir := range before {
			must(t, os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0))
		}
	})
	for path, refused := range map[string]bool{"docker/abc": true, "../docker/abc": true, "": true, "/docker/abc": false, "system.slice:docker:abc": false, ":libpod:abc": false} {
		if err := tr.CheckEngineGroup(path); errors.Is(err, ErrOwnGroup) != refused {
			t.Errorf("%s, of a runtime in Candor's group: %v; refused: want %t", path, err, refused)
		}
	}
}
