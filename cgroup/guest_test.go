package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// needGuest skips tests that would disturb other work of the machine. The guests of e2e set the variable.
func needGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("changes the whole machine: runs in the guests of e2e/guest only")
	}
}

// TestHotplug takes the CPU of a running group offline and online again.
func TestHotplug(t *testing.T) {
	needGuest(t)
	tr := tree(t)
	a, b := two(t, tr)
	all, _, err := tr.Effective()
	must(t, err)
	online := filepath.Join("/sys/devices/system/cpu", "cpu"+b.String(), "online")
	plug := func(value string) {
		t.Helper()
		must(t, os.WriteFile(online, []byte(value), 0))
	}
	g, pid := group(t, tr, "web", Settings{CPUs: b}, "sleep")
	t.Cleanup(func() { os.WriteFile(online, []byte("1"), 0) })
	plug("0")
	var left cpuset.Set
	eventually(t, "the groups can't have the CPU any more", func() bool {
		left, _, err = tr.Effective()
		must(t, err)
		return left == all.Minus(b)
	})
	if is, err := g.Populated(); !is || err != nil {
		t.Errorf("Populated = %v, %v", is, err)
	}
	if pids, err := g.Processes(); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("Processes = %v, %v; want %d", pids, err, pid)
	}
	for _, cpus := range []cpuset.Set{b, all} {
		if err := g.SetCPUs(cpus, cpuset.Set{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("SetCPUs(%v): %v, want ErrUnavailable", cpus, err)
		}
	}
	eventually(t, "the process is in its group, on a CPU that is there", func() bool {
		must(t, g.SetCPUs(a, cpuset.Set{}))
		places, err := tr.groupDirsOf(pid)
		must(t, err)
		return slices.Contains(places, g.dir(tr.cpuset)) && affinity(t, pid) == a
	})
	plug("1")
	eventually(t, "the groups can have the CPU again", func() bool {
		left, _, err = tr.Effective()
		must(t, err)
		return left == all
	})
	must(t, g.SetCPUs(b, cpuset.Set{}))
	if got := affinity(t, pid); got != b {
		t.Errorf("the process may run on %v, want %v", got, b)
	}
	must(t, g.SetCPUs(all, cpuset.Set{}))
}

// TestParentWithProcesses: cgroup v2 enables no controllers below a group with processes. Create reports the
// cause.
func TestParentWithProcesses(t *testing.T) {
	tr := tree(t)
	if !tr.cpu.v2 {
		t.Skip("v1 has no such rule")
	}
	a, _ := two(t, tr)
	must(t, os.Mkdir(tr.cpu.parent, 0o755))
	child := start(t, "sleep")
	must(t, attach(tr.cpu.parent, child.pid()))
	err := tr.Group("web").Create(Settings{CPUs: a}, start(t, "sleep").pid())
	if !errors.Is(err, ErrNotDelegated) || !strings.Contains(err.Error(), "has processes of its own") {
		t.Error(err)
	}
	if is, err := tr.Group("web").Exists(); is || err != nil {
		t.Errorf("Exists = %v, %v", is, err)
	}
	child.in.Close()
	child.Wait()
}
