package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// exclusiveGroup creates a foreign group with exclusive CPUs and memory nodes beside Candor's parent and
// returns its directory.
func exclusiveGroup(t *testing.T, tr *Tree, name string, cpus cpuset.Set) string {
	t.Helper()
	h := tr.cpuset
	dir := h.mount + "/" + name
	must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { unix.Rmdir(dir) })
	if h.v2 {
		enable(t, h.mount, []string{"cpuset"})
		must(t, tr.writeSet(dir, cpusFile, cpus))
		must(t, setPartition(dir, "root"))
		return dir
	}
	mems, err := tr.readEffective(h.mount, memsFile)
	must(t, err)
	must(t, tr.writeSet(dir, memsFile, mems.Lowest(1)))
	must(t, tr.writeSet(dir, cpusFile, cpus))
	must(t, writeInt(dir, exclusiveFlags[cpusFile], 1))
	return dir
}

// TestExclusive: the exclusive CPUs of a foreign group (on v2: of a partition) are unavailable to Candor's
// groups until the foreign group is removed.
func TestExclusive(t *testing.T) {
	needGuest(t)
	tr := tree(t)
	all, mems, err := tr.Effective()
	must(t, err)
	special := all.Lowest(1)
	rest := all.Minus(special)
	exclusiveGroup(t, tr, "special", special)
	has, _, err := tr.Effective()
	if err != nil || has != rest {
		t.Errorf("Effective: %v, %v; want %v", has, err, rest)
	}
	if found, err := tr.Reservations(); err != nil || !slices.Equal(found, []Reservation{{"/special", special}}) {
		t.Errorf("Reservations: %+v, %v", found, err)
	}
	g, pid := group(t, tr, "web", Settings{CPUs: rest}, "sleep")
	if got := affinity(t, pid); got != rest {
		t.Errorf("the process may run on %v, want %v", got, rest)
	}
	if err := g.SetCPUs(all, cpuset.Set{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("SetCPUs with CPUs of another group: %v, want ErrUnavailable", err)
	}
	deep := treeBelow(t, "/upper/deep/candor", Cgroupfs)
	group(t, deep, "log", Settings{CPUs: rest.Lowest(1)}, "")
	must(t, deep.Group("log").Remove())
	must(t, deep.Remove())
	for _, h := range deep.all {
		for _, dir := range []string{h.mount + "/upper/deep", h.mount + "/upper"} {
			must(t, unix.Rmdir(dir))
		}
	}
	must(t, unix.Rmdir(tr.cpuset.mount+"/special"))
	eventually(t, "Candor's groups have all CPUs again", func() bool {
		has, _, err := tr.Effective()
		must(t, err)
		return has == all && g.SetCPUs(all, mems) == nil
	})
}

// TestExclusiveAll: a foreign group on v1 can have all CPUs or all memory nodes exclusively. The error names
// this group.
func TestExclusiveAll(t *testing.T) {
	needGuest(t)
	tr := tree(t)
	if tr.cpuset.v2 {
		t.Skip("v2 leaves the root one CPU, and has no exclusive memory")
	}
	all, mems, err := tr.Effective()
	must(t, err)
	dir := exclusiveGroup(t, tr, "greedy", all)
	refused := func(flag string) {
		t.Helper()
		_, _, err := tr.Effective()
		created := tr.Group("web").Create(Settings{CPUs: all.Lowest(1)}, 0)
		for _, err := range []error{err, created} {
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "/greedy ("+flag+"=1)") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", flag, err)
			}
		}
		if is, _ := isGroup(tr.cpuset.parent); is {
			t.Error("a refused Create leaves Candor's parent")
		}
	}
	refused("cpuset.cpu_exclusive")
	must(t, writeInt(dir, exclusiveFlags[cpusFile], 0))
	others, err := siblings(dir)
	must(t, err)
	for _, other := range others { // a guest has such a group, without processes
		now, err := tr.readSet(other, memsFile)
		must(t, err)
		if now.IsEmpty() {
			continue
		}
		must(t, write(other, memsFile, "\n"))
		t.Cleanup(func() {
			unix.Rmdir(dir) // its memory nodes are exclusive
			must(t, tr.writeSet(other, memsFile, now))
		})
	}
	must(t, tr.writeSet(dir, memsFile, mems))
	must(t, writeInt(dir, exclusiveFlags[memsFile], 1))
	refused("cpuset.mem_exclusive")
	if mems.Count() < 2 {
		return
	}
	must(t, tr.writeSet(dir, memsFile, mems.Lowest(1)))
	rest := mems.Minus(mems.Lowest(1))
	g, _ := group(t, tr, "web", Settings{CPUs: all.Lowest(1)}, "")
	if has, err := g.Settings(); err != nil || has.Mems != rest {
		t.Errorf("memory nodes %v, %v; want %v", has.Mems, err, rest)
	}
}
