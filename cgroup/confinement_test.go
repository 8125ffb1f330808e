package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// ownRoot returns a tree whose root is a group of the test, so that its foreign processes belong to the test too. In
// the guests, the tests of cmd/candor/internal/setup confine a real root.
func ownRoot(t *testing.T) *Tree {
	t.Helper()
	tr := tree(t)
	if tr.cpuset.v2 {
		t.Skip("v2 makes partitions of groups below the machine's root only")
	}
	_, err := tr.makePath(tr.cpuset)
	must(t, err)
	h := &hierarchy{mount: tr.cpuset.parent, root: "/", controllers: tr.cpuset.controllers}
	h.parent = h.mount + "/candor"
	return &Tree{driver: Cgroupfs, parent: "/candor", proc: "/proc", cpuset: h, cpu: h, all: []*hierarchy{h}}
}

// TestConfinementsV1 confines nested groups and the processes of the root group, and reverts the confinement.
func TestConfinementsV1(t *testing.T) {
	tr := ownRoot(t)
	a, b := two(t, tr)
	both := a.Union(b)
	root := tr.cpuset.mount
	loose, inside := settle(t, tr, root, a, b)

	list, err := tr.Confinements(a, both)
	must(t, err)
	var got []string
	for _, f := range list {
		got = append(got, fmt.Sprintf("%s %s: %s to %s", f.Kind, f.At, f.Before, f.After))
	}
	want := []string{
		fmt.Sprintf("cpuset.cpus /x/y: %s to %s", both, a),
		fmt.Sprintf("cpuset.cpus /x/z: %s to %s", b, a),
		fmt.Sprintf("cpuset.cpus /x: %s to %s", both, a),
		fmt.Sprintf("processes /candor-others:  to %s", a),
	}
	if !slices.Equal(got, want) {
		t.Fatalf("confinements\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, f := range list {
		must(t, tr.SetConfinement(f, f.After))
	}
	for where, pid := range map[string]int{"in no group": loose, "in a nested group": inside} {
		if is := affinity(t, pid); is != a {
			t.Errorf("a process %s may run on %v, want %v", where, is, a)
		}
	}
	if again, err := tr.Confinements(a, both); err != nil || len(again) > 0 {
		t.Errorf("after the confinement: got %v, %v; want none", again, err)
	}
	late := start(t, "sleep").pid() // enters the root after the confinement
	must(t, attach(root, late))
	again, err := tr.Confinements(a, both)
	if err != nil || len(again) != 1 || again[0].Kind != ConfineProcesses {
		t.Fatalf("with a new process in the root: got %v, %v; want its confinement alone", again, err)
	}
	must(t, tr.SetConfinement(again[0], again[0].After))
	if is := affinity(t, late); is != a {
		t.Errorf("the new process may run on %v, want %v", is, a)
	}

	for _, f := range slices.Backward(list) {
		must(t, tr.SetConfinement(f, f.Before))
		if now, err := tr.ReadConfinement(f); err != nil || now != f.Before {
			t.Errorf("%s of %s is %q (%v), want %q", f.Kind, f.At, now, err, f.Before)
		}
	}
	if is := affinity(t, inside); is != b {
		t.Errorf("after undo the process in the group may run on %v, want %v", is, b)
	}
	if is := affinity(t, loose); !both.SubsetOf(&is) {
		t.Errorf("after undo the process in no group may run on %v", is)
	}
}

// settle makes groups below a root, and starts a process in the root group and a process in a nested group.
// It returns their IDs.
func settle(t *testing.T, tr *Tree, root string, a, b cpuset.Set) (loose, inside int) {
	t.Helper()
	both := a.Union(b)
	for dir, cpus := range map[string]cpuset.Set{"/x": both, "/x/y": both, "/x/z": b, "/small": a, "/candor": both} {
		must(t, os.MkdirAll(root+dir, 0o755))
		if !strings.Contains(dir, "/x/") {
			must(t, tr.inheritCpusetV1(root+dir))
			must(t, tr.writeSet(root+dir, cpusFile, cpus))
		}
	}
	for dir, cpus := range map[string]cpuset.Set{"/x/y": both, "/x/z": b} {
		must(t, tr.inheritCpusetV1(root+dir))
		must(t, tr.writeSet(root+dir, cpusFile, cpus))
	}
	must(t, os.Mkdir(root+"/unused", 0o755)) // has no CPUs yet
	t.Cleanup(func() { removeTree(root, time.Now().Add(time.Minute)) })
	loose, inside = start(t, "sleep").pid(), start(t, "sleep").pid()
	must(t, attach(root, loose))
	must(t, attach(root+"/x/z", inside))
	return loose, inside
}

// TestInvalidConfinement: SetConfinement refuses invalid confinements, because it also applies confinements
// from a file.
func TestInvalidConfinement(t *testing.T) {
	tr, err := Open(Options{ReadOnly: true})
	must(t, err)
	for _, f := range []Confinement{
		{Kind: ConfineCPUs, At: "", After: "0"},
		{Kind: ConfineCPUs, At: "/", After: "0"},
		{Kind: ConfineCPUs, At: "x", After: "0"},
		{Kind: ConfineCPUs, At: "/../../../tmp", After: "0"},
		{Kind: ConfineCPUs, At: "/a\x00b", After: "0"},
		{Kind: ConfineUnit, At: "../x.slice", After: "0"},
		{Kind: ConfineUnit, At: "x.mount", After: "0"},
		{Kind: "tasks", At: "/x", After: "0"},
	} {
		if err := tr.SetConfinement(f, f.After); err == nil {
			t.Errorf("%+v was set", f)
		}
	}
	f := Confinement{Kind: ConfineCPUs, At: fmt.Sprintf("/candor-test-none-%d", os.Getpid()), Before: "0", After: "1"}
	if err := tr.SetConfinement(f, f.After); !isGone(err) {
		t.Errorf("a missing group: %v", err)
	}
	if err := tr.SetConfinement(f, f.Before); err != nil {
		t.Errorf("undo for a missing group: %v", err)
	}
	all, _, err := tr.Effective()
	must(t, err)
	if _, err := tr.Confinements(all, all); err == nil {
		t.Error("accepted a confinement that leaves no CPU to Candor")
	}
	if _, err := tr.Confinements(cpuset.Of(cpuset.Max-1), cpuset.Range(0, cpuset.Max-1)); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a CPU that is not there: %v", err)
	}
}
