package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// freezer returns the freezer of a group.
func freezer(t testing.TB, tr *Tree, name string) *Freezer {
	t.Helper()
	if tr.reaper == nil || tr.reaper.v2 {
		if _, err := tr.OpenFreezer(name); !errors.Is(err, ErrNoFreezer) {
			t.Errorf("without v1's freezer: got %v, want ErrNoFreezer", err)
		}
		t.Skip("needs the freezer controller of cgroup v1")
	}
	f, err := tr.OpenFreezer(name)
	must(t, err)
	return f
}

// isStopped reports whether a group uses no CPU time for 50 ms.
func isStopped(t testing.TB, tr *Tree, name string) bool {
	t.Helper()
	before, err := tr.ReadUsage(name)
	must(t, err)
	time.Sleep(50 * time.Millisecond)
	after, err := tr.ReadUsage(name)
	must(t, err)
	return before.CPU == after.CPU
}

// TestFreezer: a frozen group uses no CPU time, also with processes that joined it later, and the group itself stays thawed. After
// Close, all processes run in their group, and no nested group is left.
func TestFreezer(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, first := group(t, tr, "web", Settings{CPUs: a}, "spin")
	f := freezer(t, tr, "web")
	must(t, f.Freeze())
	eventually(t, "the group has stopped", func() bool { return isStopped(t, tr, "web") })
	if isFrozen, err := g.Frozen(); err != nil || isFrozen {
		t.Errorf("the group itself: frozen %v, %v", isFrozen, err)
	}
	second := start(t, "spin").pid()
	for _, h := range tr.all {
		must(t, attach(g.dir(h), second))
	}
	eventually(t, "the new process runs", func() bool { return !isStopped(t, tr, "web") })
	must(t, f.Thaw())
	must(t, f.Freeze())
	eventually(t, "the group has stopped again", func() bool { return isStopped(t, tr, "web") })

	other, err := Open(Options{Parent: strings.TrimPrefix(tr.parent, "/"), Driver: tr.driver})
	must(t, err)
	must(t, other.Group("web").ThawFreezer())
	eventually(t, "the group runs", func() bool { return !isStopped(t, tr, "web") })
	must(t, f.Close())
	pids, err := processesIn(g.dir(tr.reaper))
	must(t, err)
	if !slices.Contains(pids, first) || !slices.Contains(pids, second) {
		t.Errorf("processes of the group after Close: %v, want %d and %d", pids, first, second)
	}
	if nested, err := subgroups(g.dir(tr.reaper)); err != nil || len(nested) > 0 {
		t.Errorf("nested groups after Close: %v, %v", nested, err)
	}
	must(t, f.Close())
}

// TestFreezerOfKilled: a killed process ends when it is thawed, and IsKilled tells that it waits.
func TestFreezerOfKilled(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "spin")
	f := freezer(t, tr, "web")
	must(t, f.Freeze())
	eventually(t, "the group has stopped", func() bool { return isStopped(t, tr, "web") })
	if f.IsKilled() {
		t.Error("IsKilled before the signal")
	}
	must(t, syscall.Kill(pid, syscall.SIGTERM))
	if f.IsKilled() {
		t.Error("IsKilled for SIGTERM, which a program can handle")
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "SIGKILL is pending", f.IsKilled)
	must(t, f.Thaw())
	eventually(t, "the process has ended", func() bool {
		isPopulated, err := g.Populated()
		must(t, err)
		return !isPopulated
	})
	must(t, g.Remove())
	for name, call := range map[string]func() error{"Freeze": f.Freeze, "Thaw": f.Thaw, "Close": f.Close} {
		if err := call(); name == "Freeze" && !errors.Is(err, ErrNoGroup) || name != "Freeze" && err != nil {
			t.Errorf("%s of a removed group: %v", name, err)
		}
	}
}

// TestFreezerRefused: a group with nested groups is refused, and an invalid or missing group too.
func TestFreezerRefused(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	freezer(t, tr, "web")
	must(t, os.Mkdir(g.dir(tr.reaper)+"/docker", 0o755))
	if _, err := tr.OpenFreezer("web"); !errors.Is(err, ErrNoFreezer) {
		t.Errorf("with a nested group: got %v, want ErrNoFreezer", err)
	}
	if _, err := tr.OpenFreezer("missing"); !errors.Is(err, ErrNoGroup) {
		t.Errorf("missing group: got %v, want ErrNoGroup", err)
	}
	for _, bad := range []string{"/../etc", "", "a/b"} {
		if _, err := tr.OpenFreezer(bad); err == nil {
			t.Errorf("group %q was accepted", bad)
		}
	}
}

func TestHasPendingKill(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tsh\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n": true,
		"Name:\tsh\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n": true,
		"Name:\tsh\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n": false,
		"Name:\tSigPnd:\t0000000000000100\n":                                false,
		"":                                                                  false,
	} {
		if got := hasPendingKill([]byte(status)); got != want {
			t.Errorf("%q: got %v, want %v", status, got, want)
		}
	}
}

// BenchmarkFreezer measures a freeze with the following thaw.
func BenchmarkFreezer(b *testing.B) {
	tr := tree(b)
	a, _ := two(b, tr)
	group(b, tr, "web", Settings{CPUs: a}, "sleep")
	f := freezer(b, tr, "web")
	for b.Loop() {
		must(b, f.Freeze())
		must(b, f.Thaw())
	}
}

// TestRemoveFreezer: after the end of the process with the Freezer, another process thaws the group and moves its processes back,
// also if the container has created a nested group meanwhile. Without a Freezer there is no change.
func TestRemoveFreezer(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, pid := group(t, tr, "web", Settings{CPUs: a}, "spin")
	must(t, g.RemoveFreezer())
	f := freezer(t, tr, "web")
	must(t, f.Freeze())
	eventually(t, "the group has stopped", func() bool { return isStopped(t, tr, "web") })
	own := g.dir(tr.reaper) + "/own"
	must(t, os.Mkdir(own, 0o755))
	if _, err := tr.OpenFreezer("web"); !errors.Is(err, ErrNoFreezer) {
		t.Errorf("with another nested group: %v, want ErrNoFreezer", err)
	}
	for range 2 {
		must(t, g.RemoveFreezer())
	}
	eventually(t, "the group runs", func() bool { return !isStopped(t, tr, "web") })
	if pids, err := processesIn(g.dir(tr.reaper)); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("processes of the group: %v, %v; want %d", pids, err, pid)
	}
	if nested, err := subgroups(g.dir(tr.reaper)); err != nil || !slices.Equal(nested, []string{own}) {
		t.Errorf("nested groups: %v, %v; want %s", nested, err, own)
	}
}
