package cgroup

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAddMemory limits the memory of one of Candor's groups, and undoes that.
func TestAddMemory(t *testing.T) {
	tr := tree(t)
	h := tr.memory
	if h == nil {
		t.Skip("the memory controller is not mounted here")
	}
	a, _ := two(t, tr)
	before := map[string]string{} // controllers of the groups above, on v2
	if h.v2 {
		if offered, err := read(h.mount, "cgroup.controllers"); err != nil || !slices.Contains(strings.Fields(string(offered)), "memory") {
			t.Skip("v2 does not offer the memory controller here")
		}
		enabled, err := read(h.mount, subtreeFile)
		must(t, err)
		before[h.mount] = string(enabled)
	}
	for _, mode := range []string{"sleep", ""} {
		g, pid := group(t, tr, "web", Settings{CPUs: a}, mode)
		inMemory := func() string {
			dirs, err := tr.groupDirsIn([]*hierarchy{h}, pid)
			must(t, err)
			return dirs[0]
		}
		origin := ""
		if pid != 0 {
			origin = inMemory()
		}
		undo, err := g.AddMemory(pid)
		must(t, err)
		want := MemoryLimits{64 * mib, NoMemoryLimit}
		if _, err := g.SetMemoryLimits(want); err != nil {
			t.Error(err)
		}
		if got, err := g.MemoryLimits(); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		if m, err := tr.ReadMemory("web"); err != nil || m.Bound != (MemoryBound{h.pathOf(g.dir(h)), m.Bound.File, 64 * mib}) {
			t.Errorf("%+v, %v", m, err)
		}
		if pid != 0 && inMemory() != g.dir(h) {
			t.Errorf("the process is in %s", inMemory())
		}
		again, err := g.AddMemory(pid) // changes nothing
		must(t, err)
		must(t, again())
		if pid != 0 && inMemory() != g.dir(h) {
			t.Errorf("the process is in %s", inMemory())
		}
		_, err = g.SetMemoryLimits(MemoryLimits{NoMemoryLimit, NoMemoryLimit})
		must(t, err)
		must(t, undo())
		if pid != 0 && inMemory() != origin {
			t.Errorf("the process is in %s, was in %s", inMemory(), origin)
		}
		if _, err := os.Stat(g.dir(h) + "/" + memoryV1.limit); !h.v2 && !os.IsNotExist(err) {
			t.Errorf("the group remains in the hierarchy of the controller: %v", err)
		}
		for dir, want := range before {
			has, err := read(dir, subtreeFile)
			if hasMemory := slices.Contains(strings.Fields(string(has)), "memory"); err != nil || hasMemory != slices.Contains(strings.Fields(want), "memory") {
				t.Errorf("%s has the controllers %q, %v; before %q", dir, has, err, want)
			}
		}
		_, err = g.AddMemory(pid)
		must(t, err)
		must(t, g.Kill(unix.SIGKILL))
		must(t, g.Remove())
		if _, err := os.Stat(g.dir(h)); !os.IsNotExist(err) {
			t.Errorf("Remove leaves a folder: %v", err)
		}
	}
	if !h.v2 { // a candor process was killed in Remove
		g := tr.Group("web")
		must(t, os.MkdirAll(g.dir(h), 0o755))
		must(t, write(g.dir(h), memoryV1.limit, "67108864"))
		group(t, tr, "web", Settings{CPUs: a}, "")
		if _, err := os.Stat(g.dir(h)); !os.IsNotExist(err) {
			t.Errorf("Create keeps the folder of an earlier group: %v", err)
		}
		must(t, g.Remove())
	}
	if _, err := tr.Group("none").AddMemory(1 << 30); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("no process: %v", err)
	}
	if _, err := os.Stat(tr.Group("none").dir(h)); !os.IsNotExist(err) {
		t.Errorf("a failed AddMemory leaves a folder: %v", err)
	}
	if _, err := tr.EngineGroup("web", "/kubepods/web").AddMemory(0); err == nil {
		t.Error("a group of an engine has no error")
	}
}

// TestReadRemovedMemory: a group of v2 whose files vanish between the reads has no limit of the group above.
func TestReadRemovedMemory(t *testing.T) {
	all := map[string]string{"cgroup.controllers": "memory", "memory.stat": "anon 1", "pod/memory.max": "900", "pod/memory.high": "max", "pod/memory.current": "7",
		"pod/web/cgroup.controllers": "memory", "pod/web/memory.stat": "anon 1", "pod/web/memory.max": "500", "pod/web/memory.high": "max", "pod/web/memory.current": "7"}
	if m, err := memoryFixture(t, true, all).read("/pod/web"); err != nil || m.Bound.Limit != 500 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, files := range [][]string{{"memory.max"}, {"memory.max", "memory.current", "memory.high"}} {
		some := maps.Clone(all)
		for _, file := range files {
			delete(some, "pod/web/"+file)
		}
		if m, err := memoryFixture(t, true, some).read("/pod/web"); !isGone(err) {
			t.Errorf("without %v: %+v, %v", files, m, err)
		}
	}
}
