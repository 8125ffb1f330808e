package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
)

func TestCreateAndRemove(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	s := Settings{CPUs: a, Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond, Burst: 20 * time.Millisecond, Weight: 2500}
	g, pid := group(t, tr, "web", s, "sleep")
	if is, err := g.Exists(); !is || err != nil {
		t.Errorf("Exists = %v, %v", is, err)
	}
	if is, err := g.Populated(); !is || err != nil {
		t.Errorf("Populated = %v, %v", is, err)
	}
	if pids, err := g.Processes(); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("Processes = %v, %v; want %d", pids, err, pid)
	}
	same(t, g, s)
	s = Settings{CPUs: a.Union(b), Period: 50 * time.Millisecond, Weight: 1000}
	must(t, g.Apply(s))
	same(t, g, s)

	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove with a process in it: %v, want ErrBusy", err)
	}
	if is, _ := g.Exists(); !is {
		t.Error("a refused Remove removed the group")
	}
	must(t, g.Kill(syscall.SIGKILL))
	if is, err := g.Populated(); is || err != nil {
		t.Errorf("Populated = %v, %v after Kill", is, err)
	}
	must(t, g.Remove())
	if is, err := g.Exists(); is || err != nil {
		t.Errorf("Exists = %v, %v after Remove", is, err)
	}
	must(t, g.Remove()) // removing a missing group is no error
	_, err := g.Settings()
	if !errors.Is(err, ErrNoGroup) || !errors.Is(g.Kill(syscall.SIGTERM), ErrNoGroup) || !errors.Is(g.Apply(s), ErrNoGroup) {
		t.Errorf("Settings of no group: %v", err)
	}
}

// same compares the kernel's settings of a group with the wanted settings.
func same(t testing.TB, g *Group, want Settings) {
	t.Helper()
	got, err := g.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if got.Mems.IsEmpty() {
		t.Error("no memory nodes")
	}
	if want.Mems.IsEmpty() {
		got.Mems = want.Mems
	}
	if want.Period == 0 {
		want.Period = bandwidth.DefaultPeriod
	}
	if want.Weight == 0 {
		want.Weight = 1000
	}
	if got != want {
		t.Errorf("the kernel has\n%+v, want\n%+v", got, want)
	}
}

func TestCreateRefuses(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	ms := time.Millisecond
	for name, tt := range map[string]struct {
		s   Settings
		pid int
	}{
		"no CPUs":          {Settings{}, 0},
		"CPUs not there":   {Settings{CPUs: cpuset.Of(cpuset.Max - 1)}, 0},
		"nodes not there":  {Settings{CPUs: a, Mems: cpuset.Of(cpuset.Max - 1)}, 0},
		"short quota":      {Settings{CPUs: a, Quota: ms / 2}, 0},
		"negative quota":   {Settings{CPUs: a, Quota: -ms}, 0},
		"huge quota":       {Settings{CPUs: a, Quota: 1 << 62}, 0},
		"short period":     {Settings{CPUs: a, Quota: ms, Period: ms / 2}, 0},
		"long period":      {Settings{CPUs: a, Quota: ms, Period: 2 * time.Second}, 0},
		"burst over quota": {Settings{CPUs: a, Quota: 2 * ms, Burst: 3 * ms}, 0},
		"burst, no quota":  {Settings{CPUs: a, Burst: 3 * ms}, 0},
		"negative burst":   {Settings{CPUs: a, Quota: ms, Burst: -1}, 0},
		"negative weight":  {Settings{CPUs: a, Weight: -1}, 0},
		"no process":       {Settings{CPUs: a}, 1 << 30},
		"process -1":       {Settings{CPUs: a}, -1},
		"kernel thread":    {Settings{CPUs: a}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			err := tr.Group("bad").Create(tt.s, tt.pid)
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			for _, h := range tr.all { // Create also made the parent
				if _, err := os.Stat(h.parent); !os.IsNotExist(err) {
					t.Errorf("%s is left: %v", h.parent, err)
				}
			}
		})
	}
}

func TestCreateLeftovers(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	old, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 9 * time.Millisecond, Burst: 9 * time.Millisecond, Weight: 9000}, "")
	nest(t, old, "deep/deeper", cpuset.Set{})
	g, pid := group(t, tr, "web", Settings{CPUs: b}, "sleep") // replaces the empty group
	same(t, g, Settings{CPUs: b})
	if nested, err := subgroups(g.dir(tr.cpuset)); err != nil || len(nested) > 0 {
		t.Errorf("nested groups of the earlier group are left: %v, %v", nested, err)
	}
	if err := g.Create(Settings{CPUs: a}, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("Create over a running group: %v, want ErrBusy", err)
	}
	same(t, g, Settings{CPUs: b})
	if got := affinity(t, pid); got != b {
		t.Errorf("the process of the running group is on %v, want %v", got, b)
	}
	// The group exists in the last hierarchy only, as after a Create that was killed.
	must(t, os.Mkdir(tr.Group("half").dir(tr.all[len(tr.all)-1]), 0o755))
	if is, err := tr.Group("half").Exists(); !is || err != nil {
		t.Errorf("half a group: Exists = %v, %v", is, err)
	}
	if is, err := tr.Group("half").Populated(); is || err != nil {
		t.Errorf("half a group: Populated = %v, %v", is, err)
	}
	half, _ := group(t, tr, "half", Settings{CPUs: a}, "sleep")
	same(t, half, Settings{CPUs: a})
}

// TestEnterAllOrNone: if the last of several hierarchies refuses a process, the process stays in its groups
// in all hierarchies.
func TestEnterAllOrNone(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	pid := start(t, "sleep").pid()
	before, err := tr.groupDirsOf(pid)
	must(t, err)
	if err := tr.enter(append(g.dirs(), "/nonexistent"), pid, before); err == nil {
		t.Fatal("no error")
	}
	if after, err := tr.groupDirsOf(pid); err != nil || !slices.Equal(before, after) {
		t.Errorf("the process is in %v, %v; want %v", after, err, before)
	}
	must(t, g.Remove())
}

// TestParentWeight: the parent's weight is 1000 per CPU, so that a foreign process cannot starve Candor's
// containers.
func TestParentWeight(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	group(t, tr, "web", Settings{CPUs: a}, "")
	cpus, _, err := tr.Effective()
	must(t, err)
	s, err := tr.cpu.readCPU(tr.cpu.parent)
	must(t, err)
	if got := tr.cpu.weightOf(s.weight); got != 1000*cpus.Count() {
		t.Errorf("weight %d for %d CPUs", got, cpus.Count())
	}
}
