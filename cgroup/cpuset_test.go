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

func TestSetCPUs(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "spin")
	for _, cpus := range []cpuset.Set{a, b, a.Union(b), b, a.Union(b), a} {
		must(t, g.SetCPUs(cpus, cpuset.Set{}))
		if s, err := g.Settings(); err != nil || s.CPUs != cpus {
			t.Fatalf("has %v, %v; want %v", s.CPUs, err, cpus)
		}
		if got := affinity(t, pid); got != cpus {
			t.Errorf("the process may run on %v, want %v", got, cpus)
		}
		if got, _, err := g.Effective(); err != nil || got != cpus {
			t.Errorf("Effective = %v, %v; want %v", got, err, cpus)
		}
	}
}

func TestSetCPUsRefuses(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	if err := g.SetCPUs(cpuset.Set{}, cpuset.Set{}); err == nil {
		t.Error("an empty set was accepted")
	}
	if err := g.SetCPUs(cpuset.Of(cpuset.Max-1), cpuset.Set{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("CPU %d: %v, want ErrUnavailable", cpuset.Max-1, err)
	}
	if err := g.SetCPUs(a, cpuset.Of(cpuset.Max-1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("node %d: %v, want ErrUnavailable", cpuset.Max-1, err)
	}
	if err := tr.Group("missing").SetCPUs(a, cpuset.Set{}); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a group that is not there: %v, want ErrNoGroup", err)
	}
	if got := affinity(t, pid); got != a {
		t.Errorf("the process may run on %v after refusals, want %v", got, a)
	}
}

// TestV1RefusesWrongOrder: cgroup v1 returns EBUSY or EACCES if CPUs are written in another order than that
// of moveV1.
func TestV1RefusesWrongOrder(t *testing.T) {
	tr := tree(t)
	if tr.cpuset.v2 {
		t.Skip("cpuset is on v2 here, which takes any order")
	}
	a, b := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	nested := nest(t, g, "nested", a)
	if err := tr.writeSet(g.dir(tr.cpuset), cpusFile, b); !errors.Is(err, unix.EBUSY) {
		t.Errorf("shrink of the parent first: %v, want EBUSY", err)
	}
	err := tr.writeSet(nested, cpusFile, b)
	if !errors.Is(err, unix.EACCES) {
		t.Errorf("growth of the child first: %v, want EACCES", err)
	}
	var refused *WriteError
	if !errors.As(err, &refused) || refused.File != nested+"/cpuset.cpus" || refused.Value != b.String() {
		t.Errorf("%#v does not name file and value", err)
	}
}

// TestHealParent simulates a CPU that was offline: cgroup v1 removes it from every cpuset for good. The
// parent must get the CPU back before its groups can.
func TestHealParent(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	parent := tr.cpuset.parent
	if !tr.cpuset.v2 {
		must(t, tr.writeSet(parent, cpusFile, a)) // as the kernel does when the CPU goes offline
	}
	cpus, _, err := tr.Effective()
	must(t, err)
	if !b.SubsetOf(&cpus) {
		t.Fatalf("Effective = %v without %v", cpus, b)
	}
	must(t, g.SetCPUs(b, cpuset.Set{}))
	if !tr.cpuset.v2 {
		must(t, g.SetCPUs(a, cpuset.Set{}))
		must(t, tr.writeSet(parent, cpusFile, a))
	}
	must(t, tr.Refresh())
	if has, err := tr.readEffective(parent, cpusFile); err != nil || has != cpus {
		t.Errorf("the parent has %v, %v; want %v", has, err, cpus)
	}
}

// TestReturnProcessesV1: when the last CPU of a group goes offline, cgroup v1 moves its processes into the parent's
// cpuset.
func TestReturnProcessesV1(t *testing.T) {
	tr := tree(t)
	if tr.cpuset.v2 || len(tr.all) < 2 {
		t.Skip("only v1, with cpuset mounted apart, moves processes away")
	}
	a, _ := two(t, tr)
	g := tr.Group("web")
	must(t, g.Create(Settings{CPUs: a}, 0))
	pid := start(t, "sleep").pid()
	dir := g.dir(tr.cpuset)
	must(t, attach(g.dir(tr.cpu), pid))
	must(t, attach(tr.cpuset.parent, pid))
	must(t, write(dir, cpusFile, "\n")) // no process in it: the kernel permits
	if is, err := g.Populated(); err != nil || !is {
		t.Errorf("Populated = %v, %v while its process is away", is, err)
	}
	must(t, g.SetCPUs(a, cpuset.Set{}))
	places, err := tr.groupDirsOf(pid)
	must(t, err)
	if !slices.Contains(places, dir) || affinity(t, pid) != a {
		t.Errorf("the process is in %v, on %v", strings.Join(places, ", "), affinity(t, pid))
	}
}

// TestReadSetOfReservedIDs: readSet ignores IDs above 1023, the offline CPUs that a foreign cpuset may
// contain.
func TestReadSetOfReservedIDs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/"+cpusFile, []byte("0-1,1024-1151\n"), 0o644))
	if set, err := new(Tree).readSet(dir, cpusFile); err != nil || set != cpuset.Range(0, 1) {
		t.Errorf("%v, %v", set, err)
	}
}

// TestUnavailableMessage: the error names the group above, the missing CPUs or nodes, and the CPUs or nodes of that
// group.
func TestUnavailableMessage(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ file, has, want string }{
		{cpusFile, "", "cpuset.cpus: CPUs 1-2 not available: " + dir + " has no CPUs; use"},
		{cpusFile, "0-1", "cpuset.cpus: CPU 2 not available: " + dir + " has CPUs 0-1; use"},
		{memsFile, "", "cpuset.mems: memory nodes 1-2 not available: " + dir + " has no memory nodes; use"},
		{memsFile, "1", "cpuset.mems: memory node 2 not available: " + dir + " has memory node 1; use"},
	} {
		must(t, os.WriteFile(dir+"/"+tt.file+".effective", []byte(tt.has+"\n"), 0o644))
		err := new(Tree).checkAvailable(dir, tt.file, cpuset.Range(1, 2))
		if !errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s %q: %v, want %s", tt.file, tt.has, err, tt.want)
		}
	}
}
