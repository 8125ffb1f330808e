package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// TestSystemdFailedCreate: a Create that fails, or whose program does not start, leaves no scope and no new slice.
func TestSystemdFailedCreate(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	tr := treeBelow(t, fmt.Sprintf("candorfailed%d.slice", os.Getpid()), Systemd)
	a, _ := two(t, tr)
	s := Settings{CPUs: a, Quota: 50 * time.Millisecond, Burst: 20 * time.Millisecond}
	absent := func(when string) {
		t.Helper()
		eventually(t, "the slice is removed "+when, func() bool { is, err := isGroup(tr.cpuset.parent); return !is && err == nil })
	}
	failed, err := failAt(0, func() error { return tr.Group("web").Create(s, start(t, "sleep").pid()) })
	if failed == "" || err == nil {
		t.Errorf("no write failed: %v", err)
	}
	absent("after a failed Create")
	g, _ := group(t, tr, "web", s, "sleep")
	must(t, g.End())
	must(t, tr.RestoreParent())
	absent("after RestoreParent")
	group(t, tr, "web", s, "sleep")
	if _, err := failAt(0, func() error { return tr.Group("log").Create(s, start(t, "sleep").pid()) }); err == nil {
		t.Error("no write failed")
	}
	same(t, g, s)
}

func TestSystemd(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	tr := treeBelow(t, fmt.Sprintf("candortest%d.slice", os.Getpid()), Systemd)
	a, b := two(t, tr)
	ms := time.Millisecond
	s := Settings{CPUs: a, Quota: 50 * ms, Burst: 20 * ms, Weight: 2500}
	if err := tr.Group("web").Create(s, 0); err == nil {
		t.Error("a scope without a process")
	}
	g, pid := group(t, tr, "web", s, "stubborn")
	same(t, g, s)
	if got := affinity(t, pid); got != a {
		t.Errorf("the process may run on %v, want %v", got, a)
	}
	if names, err := tr.Groups(); err != nil || !slices.Equal(names, []string{"web"}) {
		t.Errorf("Groups = %v, %v", names, err)
	}
	if err := g.Create(s, pid); !errors.Is(err, ErrBusy) {
		t.Errorf("Create over a running group: %v, want ErrBusy", err)
	}
	reload(t, tr)
	same(t, g, s)
	for _, s := range []Settings{
		{CPUs: b, Quota: 70 * ms, Weight: 2500},
		{CPUs: a.Union(b), Quota: 30 * ms, Period: 20 * ms, Burst: 30 * ms},
		{CPUs: a, Weight: 100},
		{CPUs: b, Quota: 150 * ms, Burst: 10 * ms},
	} {
		must(t, g.Apply(s))
		same(t, g, s)
		reload(t, tr)
		same(t, g, s)
	}
	must(t, g.Apply(Settings{CPUs: b, Quota: 33 * ms / 10, Weight: 100})) // 3.3 %: systemd keeps whole percents
	reload(t, tr)
	same(t, g, Settings{CPUs: b, Quota: 4 * ms, Weight: 100})
	must(t, g.SetCPUs(a, cpuset.Set{}))
	reload(t, tr)
	same(t, g, Settings{CPUs: a, Quota: 4 * ms, Weight: 100})
	if err := g.SetCPUs(cpuset.Of(cpuset.Max-1), cpuset.Set{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a missing CPU: %v, want ErrUnavailable", err)
	}
	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove with a process in it: %v, want ErrBusy", err)
	}
	if got := affinity(t, pid); got != a {
		t.Errorf("after refusals the process may run on %v, want %v", got, a)
	}
	must(t, g.Kill(syscall.SIGKILL))
	must(t, g.Remove())
	must(t, g.Remove())
	if is, err := g.Exists(); is || err != nil {
		t.Errorf("Exists = %v, %v", is, err)
	}
}

// TestSystemdMemory: the limits of a scope survive a reload of systemd.
func TestSystemdMemory(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	tr := treeBelow(t, fmt.Sprintf("candormemory%d.slice", os.Getpid()), Systemd)
	if tr.memory == nil {
		t.Skip("no memory controller")
	}
	a, _ := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	_, err := g.AddMemory(pid)
	must(t, err)
	has := func(step string, want MemoryLimits) {
		t.Helper()
		for range 2 {
			if got, err := g.MemoryLimits(); err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v", step, got, err, want)
			}
			reload(t, tr)
		}
	}
	none := MemoryLimits{NoMemoryLimit, NoMemoryLimit}
	has("a new scope", none)
	undo, err := g.SetMemoryLimits(MemoryLimits{64 * mib, NoMemoryLimit})
	must(t, err)
	has("a limit", MemoryLimits{64 * mib, NoMemoryLimit})
	must(t, undo())
	has("undone", none)
}

// TestMemoryProperties: the limits in the types and the words of systemd.
func TestMemoryProperties(t *testing.T) {
	for limits, want := range map[MemoryLimits]string{
		{64 * mib, 0}:                  "MemoryMax=@t 67108864 MemorySwapMax=@t 0 ",
		{NoMemoryLimit, NoMemoryLimit}: "MemoryMax=@t 18446744073709551615 MemorySwapMax=@t 18446744073709551615 ",
	} {
		got := ""
		for _, p := range memoryProperties(limits) {
			got += p.Name + "=" + p.Value.String() + " "
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", limits, got, want)
		}
	}
}

// reload reloads systemd, which then rewrites the files of its units.
func reload(t *testing.T, tr *Tree) {
	t.Helper()
	conn, err := tr.bus.connect()
	must(t, err)
	must(t, conn.ReloadContext(context.Background())) // slow in a guest
}

// TestSystemdUndo: if Create fails after systemd has moved the process, the process returns to its earlier
// groups.
func TestSystemdUndo(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	tr := treeBelow(t, fmt.Sprintf("candortest%d.slice", os.Getpid()), Systemd)
	pid := start(t, "sleep").pid()
	before, err := tr.groupDirsOf(pid)
	must(t, err)
	g := tr.Group("bad")
	if err := g.Create(Settings{CPUs: cpuset.Of(cpuset.Max - 1)}, pid); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if after, err := tr.groupDirsOf(pid); err != nil || !slices.Equal(before, after) {
		t.Errorf("the process is in %v, %v; want %v", after, err, before)
	}
	if is, err := g.Exists(); is || err != nil {
		t.Errorf("Exists = %v, %v", is, err)
	}
}

// TestSystemdIsTheDefault: with systemd and cgroup v2, Open selects the systemd driver unless the parent is a
// path.
func TestSystemdIsTheDefault(t *testing.T) {
	for parent, want := range map[string]Driver{"": Systemd, "my-own.slice": Systemd, "/candor": Cgroupfs} {
		tr, err := Open(Options{Parent: parent, ReadOnly: true})
		must(t, err)
		if !runsSystemd() || tr.Version() == 1 {
			want = Cgroupfs
		}
		if tr.Driver() != want {
			t.Errorf("parent %q: driver %s, want %s", parent, tr.Driver(), want)
		}
	}
}

func TestExpandSlice(t *testing.T) {
	for slice, want := range map[string]string{
		"candor.slice": "/candor.slice", "a-b-c.slice": "/a.slice/a-b.slice/a-b-c.slice",
	} {
		if got, err := expandSlice(slice); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", slice, got, err, want)
		}
	}
	for _, slice := range []string{"", ".slice", "-.slice", "a--b.slice", "-a.slice", "a-.slice", "/a.slice", "../a.slice", "a", "a.scope", "a b.slice"} {
		if got, err := expandSlice(slice); err == nil {
			t.Errorf("%q was taken as %s", slice, got)
		}
	}
}

func TestScopeNames(t *testing.T) {
	for _, name := range []string{"web", "a-b.c_d", "x.scope"} {
		if back, ours := nameOfScope(scopeName(name)); !ours || back != name {
			t.Errorf("%s: %s, %v", name, back, ours)
		}
	}
	for _, unit := range []string{"web.scope", "candor-web.service", "candor-.scope.d", "init.scope"} {
		if name, ours := nameOfScope(unit); ours {
			t.Errorf("%s was taken for %s", unit, name)
		}
	}
}

func TestProperties(t *testing.T) {
	base := state{cpus: cpuset.Of(0, 9), cpuState: cpuState{cfsBandwidth{noQuota, 100000, 0}, 100}}
	change := func(edit func(*state)) state {
		next := base
		edit(&next)
		return next
	}
	for name, tt := range map[string]struct {
		next state
		want string
	}{
		"nothing": {base, ""},
		"cpus":    {change(func(s *state) { s.cpus = cpuset.Of(1, 8, 15) }), "AllowedCPUs=@ay [0x2, 0x81] "},
		"mems":    {change(func(s *state) { s.mems = cpuset.Of(1) }), "AllowedMemoryNodes=@ay [0x2] "},
		"weight":  {change(func(s *state) { s.weight = 150 }), "CPUWeight=@t 150 "},
		"burst":   {change(func(s *state) { s.burst = 100 }), ""},
		"quota":   {change(func(s *state) { s.quota = 150000 }), "CPUQuotaPerSecUSec=@t 1500000 "},
		"period": {change(func(s *state) { s.quota, s.period = 5000, 20000 }),
			"CPUQuotaPeriodUSec=@t 20000 CPUQuotaPerSecUSec=@t 250000 "},
		"period alone": {change(func(s *state) { s.period = 20000 }),
			"CPUQuotaPeriodUSec=@t 20000 CPUQuotaPerSecUSec=@t 18446744073709551615 "},
	} {
		got := ""
		for _, p := range properties(base, tt.next) {
			got += p.Name + "=" + p.Value.String() + " "
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestRoundForSystemd(t *testing.T) {
	for _, tt := range []struct{ quota, period, want int64 }{
		{noQuota, 100000, noQuota}, {150000, 100000, 150000}, {150001, 100000, 151000}, {3300, 100000, 4000},
		{1000, 100000, 1000}, {1000, 1000000, 10000}, {1001, 20000, 1200}, {64000000, 1000000, 64000000},
	} {
		got := roundForSystemd(cfsBandwidth{tt.quota, tt.period, 0})
		if got.quota != tt.want || got.period != tt.period {
			t.Errorf("%d in %d: %+v, want %d", tt.quota, tt.period, got, tt.want)
		}
		if again := roundForSystemd(got); again != got {
			t.Errorf("%d in %d: rounded twice is %+v", tt.quota, tt.period, again)
		}
	}
}

// TestRaisedQuotaNotInUnit: a raised quota never becomes a property of the unit, even if other properties
// change.
func TestRaisedQuotaNotInUnit(t *testing.T) {
	var raised state
	raised.quota, raised.period, raised.weight = 112345, 100000, 500
	next := raised
	next.weight = 700
	if props := properties(raised, next.roundUnits(raised)); len(props) != 1 || props[0].Name != "CPUWeight" {
		t.Errorf("another weight: the unit gets %v", props)
	}
	next.quota = 50500
	if got := next.roundUnits(raised).quota; got != 51000 {
		t.Errorf("another quota: %d", got)
	}
	for _, tt := range []struct {
		quota time.Duration
		want  int64
	}{{50 * time.Millisecond, 50000}, {0, 112345}} {
		u := PendingUnitUpdate{Time: true, Quota: tt.quota}
		if before, after := u.states(raised); after.quota != tt.want || before.period == after.period || before.weight == after.weight {
			t.Errorf("own quota %v: got %+v for %+v", tt.quota, after, before)
		}
		u = PendingUnitUpdate{CPUs: true, Quota: tt.quota}
		if before, after := u.states(raised); before.cpuState != after.cpuState {
			t.Errorf("the CPUs alone: got %+v for %+v", after, before)
		}
	}
}
