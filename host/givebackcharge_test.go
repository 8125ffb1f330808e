package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/spec"
)

// freezerDir returns the group of a container in the freezer hierarchy of cgroup v1.
func (l *lab) freezerDir(name string) string { return "/sys/fs/cgroup/freezer" + l.parent + "/" + name }

// freeze freezes a container like a process that charges it, and lowers its quota. It skips the test on a machine without a
// freezer.
func (l *lab) freeze(name string) {
	l.Helper()
	f, err := l.tree.OpenFreezer(name)
	if errors.Is(err, cgroup.ErrNoFreezer) {
		l.Skip(err)
	}
	if err == nil {
		err = f.Freeze()
	}
	if err == nil {
		err = l.tree.Group(name).SetQuota(5*time.Millisecond, 0)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.await("the freeze of "+name, func() bool { return l.isFrozen(name) })
}

// isFrozen reports whether the processes of a container are frozen.
func (l *lab) isFrozen(name string) bool {
	text, err := os.ReadFile(l.freezerDir(name) + "/candor-freezer/freezer.state")
	return err == nil && strings.TrimSpace(string(text)) == "FROZEN"
}

// isThawed fails unless a spinning container runs in its own group of the freezer hierarchy, without the nested group of a
// freezer.
func (l *lab) isThawed(n *tenant) {
	l.Helper()
	group := l.tree.Group(n.ID)
	used := func() time.Duration {
		s, err := group.Stat()
		if err != nil {
			l.Fatal(err)
		}
		return s.CPU
	}
	before := used()
	l.await("the thawed "+n.ID, func() bool { return used() > before })
	if text, err := os.ReadFile(l.freezerDir(n.ID) + "/cgroup.procs"); err != nil || !slices.Contains(strings.Fields(string(text)), itoa(n.cmd.Process.Pid)) {
		l.Errorf("processes of %s: %q, %v; want %d", n.ID, text, err, n.cmd.Process.Pid)
	}
	if _, err := os.Stat(l.freezerDir(n.ID) + "/candor-freezer"); !os.IsNotExist(err) {
		l.Errorf("the nested group of %s: %v", n.ID, err)
	}
}

// charge records that a process charges a container, which the process can freeze.
func (l *lab) charge(name string, to Process) {
	l.Helper()
	l.forge(func(s *state.State) {
		i := slices.IndexFunc(s.Grants, func(g *Grant) bool { return g.ID == name })
		g := *s.Grants[i]
		g.Lease = state.Lease{To: to, Until: state.SinceBoot().Truncate(time.Millisecond) + time.Hour, Min: time.Millisecond, Max: time.Second, Frozen: true}
		s.Grants[i] = &g
	})
}

// TestGiveBackFrozen: the processes of a container that a killed process has charged and frozen run again in their own group,
// with the quota of the engine, also if the container has created groups in the meantime. A dry run lists the change and does not
// thaw.
func TestGiveBackFrozen(t *testing.T) {
	for _, created := range []string{"", "/own", "/candor-freezer/own"} {
		l := newLab(t)
		web := l.must(flexible("web", "0.5"), "spin")
		l.charge("web", dead(t))
		l.freeze("web")
		if created != "" {
			if err := os.Mkdir(l.freezerDir("web")+created, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		planned, err := l.giveBack(true)
		if thaw := (SettingChange{"web", "web", SettingFreezer, "charged", ""}); err != nil || !slices.Contains(planned, thaw) || !l.isFrozen("web") {
			t.Errorf("group %q: the dry run lists %v, %v; frozen %v", created, planned, err, l.isFrozen("web"))
		}
		if changes, err := l.giveBack(false); err != nil || !slices.Equal(changes, planned) {
			t.Errorf("group %q: %v: changed\n%v\nplanned\n%v", created, err, changes, planned)
		}
		if created != "" { // the group of the container is removed only without these groups
			if err := os.Remove(l.freezerDir("web") + created); err != nil {
				t.Error(err)
			}
		}
		if strings.HasPrefix(created, "/candor-freezer/") {
			if err := os.Remove(l.freezerDir("web") + "/candor-freezer"); err != nil {
				t.Error(err)
			}
		}
		l.isThawed(web)
		l.isPlain("web", 50*time.Millisecond)
		l.isRemoved()
		web.kill()
	}
}

// TestGiveBackFrozenCut: a GiveBack that was cut before each of its changes in turn does not prevent the next GiveBack from thawing.
func TestGiveBackFrozenCut(t *testing.T) {
	for cut := 0; ; cut++ {
		l := newLab(t)
		l.must(flexible("log", "0.1"), "wait")
		web := l.must(flexible("web", "0.5"), "spin")
		l.charge("web", dead(t))
		l.freeze("web")
		b, err := l.StartGiveBack(false)
		if err != nil {
			t.Fatal(err)
		}
		_, isCut := b.Try(&cutContext{ctx, cut})
		b.Close()
		if isCut != nil && !errors.Is(isCut, context.Canceled) {
			t.Fatalf("cut %d: %v", cut, isCut)
		}
		if _, err := l.giveBack(false); err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		l.isThawed(web)
		l.isPlain("web", 50*time.Millisecond)
		l.isRemoved()
		web.kill()
		if isCut == nil {
			if cut < 4 {
				t.Errorf("only %d cuts", cut)
			}
			return
		}
	}
}

// TestGiveBackFreezerKilled: while a process charges a container, a GiveBack does not thaw the container. After this process was
// killed, the next GiveBack thaws the container.
func TestGiveBackFreezerKilled(t *testing.T) {
	l := newLab(t)
	web := l.must(flexible("web", "0.5"), "spin")
	charger := exec.Command("sleep", "1000")
	if err := charger.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { charger.Process.Kill(); charger.Wait() }
	defer end()
	to, err := state.ProcessOf(charger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	l.charge("web", to)
	l.freeze("web")
	if _, err := l.giveBack(false); !errors.Is(err, errQuotaLeased) || !l.isFrozen("web") || !l.IsInUse() {
		t.Errorf("error %v, frozen %v, in use %v", err, l.isFrozen("web"), l.IsInUse())
	}
	end()
	if _, err := l.giveBack(false); err != nil {
		t.Fatal(err)
	}
	l.isThawed(web)
	l.isPlain("web", 50*time.Millisecond)
	l.isRemoved()
}

// costlyHelpers is a Charger whose helpers always use a CPU for each container.
type costlyHelpers struct{ start time.Time }

func (c costlyHelpers) Charges(*Grant) (charged, credited time.Duration) {
	return time.Since(c.start), 0
}
func (costlyHelpers) HelperTime() (total time.Duration, ok bool) { return 0, false }
func (costlyHelpers) BookedTime() time.Duration                  { return 0 }
func (costlyHelpers) Observe(*Grant, Account)                    {}

// TestGiveBackCharging: a loop that charges a container ends its lease soon after the start of a GiveBack. The container then
// runs with the quota of the engine.
func TestGiveBackCharging(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("depends on the time between two readings, which is long on emulated CPUs")
	}
	l := newLab(t)
	a := flexible("web", "0.5")
	a.Helpers = spec.HelpersCharge
	web := l.must(a, "spin")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.ChargeHelpers(ctx, costlyHelpers{time.Now()}) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	l.await("the charge", func() bool { return l.isFrozen("web") || l.quotaOf("web") < 25*time.Millisecond })
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(errors.Join(err, stop()))
	}
	defer b.Close()
	start := time.Now()
	waitFor(t, "the end of the lease", func() bool {
		result, err := b.Try(ctx)
		if err != nil {
			t.Error(err)
		}
		return err != nil || result.Waiting == nil
	})
	if took := time.Since(start); took > leaseDuration/2 {
		t.Errorf("the lease ended after %v", took)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(l.freezerDir("web"))); err == nil {
		l.isThawed(web)
	}
	l.isPlain("web", 50*time.Millisecond)
	l.isRemoved()
}

// A placedHelper is a process that Candor has moved to the group of a container.
type placedHelper struct {
	state.Process
	origin string // cgroups before the move
}

// placeHelper starts a process and places it as a helper of a container. It skips the test if the kernel cannot place helpers.
func (l *lab) placeHelper(container string) placedHelper {
	l.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	process, err := state.ProcessOf(cmd.Process.Pid)
	if err != nil {
		l.Fatal(err)
	}
	h := placedHelper{Process: process}
	h.origin = h.groups(l.TB)
	if err := l.PlaceHelper(ctx, container, h.PID); errors.Is(err, cgroup.ErrNoPlacement) {
		l.Skip(err)
	} else if err != nil {
		l.Fatal(err)
	}
	if h.groups(l.TB) == h.origin {
		l.Fatalf("the helper of %s was not moved:\n%s", container, h.origin)
	}
	return h
}

// groups returns the cgroups of the process, as /proc/PID/cgroup shows them.
func (h placedHelper) groups(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", h.PID))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGiveBackHelpers: a helper that Candor has moved to the group of a container returns to its own group and runs on. The
// container has the quota of its limit. The helper of a container that has ended also returns, and the group of this container is
// removed.
func TestGiveBackHelpers(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web, gone := l.must(ask("web", "1"), "wait"), l.must(flexible("gone", "0.1"), "wait")
	helpers := []placedHelper{l.placeHelper("web"), l.placeHelper("gone")}
	gone.kill()
	planned, err := l.giveBack(true)
	move := SettingChange{"web", "web", SettingHelpers, "placed", ""}
	if groups := helpers[0].groups(t); err != nil || !slices.Contains(planned, move) || groups == helpers[0].origin {
		t.Errorf("the dry run lists %v, %v; groups\n%s", planned, err, groups)
	}
	if changes, err := l.giveBack(false); err != nil || !slices.Equal(changes, planned) {
		t.Errorf("%v: changed\n%v\nplanned\n%v", err, changes, planned)
	}
	for _, h := range helpers {
		if groups := h.groups(t); groups != h.origin || !h.Alive() {
			t.Errorf("helper %d, alive %v, is in\n%swant\n%s", h.PID, h.Alive(), groups, h.origin)
		}
	}
	if names, err := l.tree.Groups(); err != nil || !slices.Equal(names, []string{"web"}) || l.tree.Group("web").HasHelpers() {
		t.Errorf("groups %v, %v, helpers %v", names, err, l.tree.Group("web").HasHelpers())
	}
	if !web.Main.Alive() {
		t.Error("web has ended")
	}
	l.isPlain("web", 100*time.Millisecond)
	l.isRemoved()
}

// TestGiveBackSystemd: systemd retains the given-back settings of candor run's scopes at a reload.
func TestGiveBackSystemd(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs systemd and root: runs in a guest of e2e/guest")
	}
	l := labWith(t, filepath.Join(memoryDir(t), "state"), cgroup.Options{Parent: fmt.Sprintf("candorhost%d.slice", os.Getpid()), Driver: cgroup.Systemd})
	if l.tree.Version() == 1 {
		t.Skip("systemd on cgroup v1 does not change cpusets")
	}
	l.needCPUs(3)
	l.must(ask("web", "1"), "wait")
	l.must(ask("part", "0.5"), "wait")
	l.must(flexible("log", "0.25"), "wait")
	for _, name := range []string{"web", "part"} {
		if _, isWide := l.givenBack(name); isWide {
			t.Fatalf("%s has the CPUs of the slice", name)
		}
	}
	if _, err := l.giveBack(false); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"given back", "after a reload"} {
		l.isPlain("web", 100*time.Millisecond)
		l.isPlain("part", 50*time.Millisecond)
		l.isPlain("log", 25*time.Millisecond)
		if t.Failed() {
			t.Fatal(when)
		}
		if out, err := exec.Command("systemctl", "daemon-reload").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := exec.Command("systemctl", "show", "--property=SystemState").CombinedOutput(); err != nil { // answered after the reload
			t.Fatalf("%v: %s", err, out)
		}
	}
	l.isRemoved()
}
