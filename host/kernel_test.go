package host

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

var ctx = context.Background()

// A container's life: the others make room, and get it back.
func TestLife(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	l.must(flexible("log", "0"), "wait")
	web := l.must(ask("web", "1"), "wait")
	l.check("log", "web")
	if has, _ := l.tree.Group("log").Settings(); has.CPUs.Count() != len(cpus)-1 || has.CPUs.Overlaps(&web.CPUs) {
		t.Errorf("log has %v beside web's %v", has.CPUs, web.CPUs)
	}
	if err := l.Release(ctx, "web", false); !errors.Is(err, ErrPopulated) {
		t.Errorf("release of a running container: %v", err)
	}
	l.check("log", "web")
	web.stop()
	if err := l.Release(ctx, "web", false); err != nil {
		t.Fatal(err)
	}
	l.check("log")
	if has, _ := l.tree.Group("log").Settings(); has.CPUs.Count() != len(cpus) {
		t.Errorf("log has %v after web's end", has.CPUs)
	}
	if err := l.Release(ctx, "log", true); err != nil {
		t.Fatal(err)
	}
	l.check()
}

// The state was removed while programs run: a look says so, the next operation adopts them.
func TestStateRemoved(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	if err := os.Remove(l.store.stateFile()); err != nil {
		t.Fatal(err)
	}
	s, err := l.Snapshot()
	if err != nil || len(s.Grants) != 0 || strings.Join(s.Strays, " ") != "web" || s.Owner != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := s.Grant("web"); err == nil || !strings.Contains(err.Error(), "adopts") {
		t.Errorf("asked for it: %v", err)
	}
	l.nudge()
	l.check("web")
	if s, err := l.Snapshot(); err != nil || len(s.Strays) != 0 || s.Grants[0].CPUs != web.CPUs {
		t.Errorf("adopted: %+v, %v", s, err)
	}
	other, err := Open(Options{StateDir: filepath.Join(t.TempDir(), "other"), Cgroup: cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := other.Snapshot(); err != nil || s.Owner != l.store.dir || len(s.Strays) != 0 {
		t.Errorf("looked at from another state: %+v, %v", s, err)
	}
}

// Others may look at the state and the groups, whatever umask the first operation had.
func TestUmask(t *testing.T) {
	l := newLab(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	l.must(ask("web", "0.5"), "wait")
	for file, want := range map[string]os.FileMode{
		l.store.dir: 0o755, l.store.stateFile(): 0o644, l.store.request("web"): 0o644, l.store.lockFile(): 0o600,
		l.store.view("web"): 0o755, filepath.Join(l.store.view("web"), "online"): 0o644,
	} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", file, info.Mode(), err, want)
		}
	}
}

// A second state on the same groups is refused, whatever it asks for, and nothing of
// the first is touched.
func TestTwoStates(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("web", "1"), "wait")
	other, err := Open(Options{
		StateDir: filepath.Join(t.TempDir(), "other"),
		Cgroup:   cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"allocate": func() error { _, err := other.Allocate(ctx, ask("db", "0.5")); return err }(),
		"release":  other.Release(ctx, "web", true),
		"nothing":  other.Reconcile(ctx),
	} {
		if !errors.Is(err, cgroup.ErrOwned) || !strings.Contains(err.Error(), l.store.dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.nudge()
	l.check("web")
	if err := l.Release(ctx, "web", true); err != nil {
		t.Fatal(err)
	}
	if err := other.Reconcile(ctx); err != nil {
		t.Errorf("with nobody there: %v", err)
	}
}

// One directory is one state, by whatever path.
func TestRealPath(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/run", 0o755), os.Symlink("run", dir+"/var")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/run/candor", dir + "/var/candor", "run/../var/candor", dir + "//run/candor/"} {
		if got, err := realPath(path); got != real+"/run/candor" || err != nil {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	if got, err := realPath("/no/such/state"); got != "/no/such/state" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// A resize changes quota, CPUs and view; one that cannot be leaves all as it was.
func TestResize(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	if _, after, err := l.Resize(ctx, "web", 1500, 0); err != nil || after.CPUs.Count() != 2 {
		t.Fatalf("%v, %v", after, err)
	}
	l.check("web")
	has, _ := l.tree.Group("web").Settings()
	if has.Quota != 150*time.Millisecond || !web.CPUs.SubsetOf(&has.CPUs) {
		t.Errorf("the kernel has %+v", has)
	}
	before, _ := os.ReadFile(l.store.stateFile())
	var refusal *hybrid.Refusal
	if _, _, err := l.Resize(ctx, "web", hybrid.Milli(1000*(len(cpus)+1)), 0); !errors.As(err, &refusal) {
		t.Errorf("more than the machine has: %v", err)
	}
	if _, _, err := l.Resize(ctx, "web", 5, 0); !errors.Is(err, ErrBadSpec) {
		t.Errorf("less than the kernel takes: %v", err)
	}
	if after, _ := os.ReadFile(l.store.stateFile()); string(after) != string(before) {
		t.Errorf("a refused resize changed the state:\n%s", after)
	}
	l.check("web")
}

// What ended is reaped by the next operation, unless its creator lives.
func TestReap(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "0.5"), "wait")
	web.stop()
	l.nudge()
	l.check("web") // its creator is this process

	if _, err := l.Allocate(ctx, ask("later", "0.2")); err != nil {
		t.Fatal(err)
	}
	late := ask("late", "0.2")
	late.Deadline = time.Nanosecond
	if _, err := l.Allocate(ctx, late); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	l.check("web", "later") // has no group yet, and a creator that lives

	l.forge(func(s *state) { s.Grants[0].State = Held })
	l.orphan()
	l.nudge()
	l.check("web") // held
	if err := l.Release(ctx, "web", false); err != nil {
		t.Fatal(err)
	}
	l.check()
}

// A running container whose creator was killed keeps its CPUs, until it ends.
func TestCreatorKilled(t *testing.T) {
	l := newLab(t)
	web := l.must(ask("web", "1"), "wait")
	l.orphan()
	l.nudge()
	l.check("web")
	web.stop()
	l.nudge()
	l.check()
}

// A pending container turns running when processes appear in its group.
func TestPendingTurnsRunning(t *testing.T) {
	l := newLab(t)
	web := l.must(ask("web", "1"), "wait")
	l.forge(func(s *state) { s.Grants[0].State, s.Grants[0].Deadline = Pending, 1 })
	l.orphan()
	l.nudge()
	l.check("web")
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if g, _ := s.Grant("web"); g.State != Running || g.Deadline != 0 {
		t.Errorf("%v, deadline %v", g.State, g.Deadline)
	}
	web.stop()
}

// Somebody else rewrote cpusets and quotas: the next operation puts them right.
func TestDrift(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	l.must(ask("web", "0.5"), "wait")
	l.must(ask("db", "0.7"), "wait")
	l.must(flexible("log", "0"), "wait")
	for _, name := range []string{"web", "db", "log"} {
		err := l.tree.Group(name).Apply(cgroup.Settings{CPUs: cpuset.Of(cpus[1]), Quota: 30 * time.Millisecond, Weight: 50})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.nudge()
	l.check("web", "db", "log")
	if has, _ := l.tree.Group("web").Settings(); has.Weight == 50 {
		t.Errorf("weight %d stayed", has.Weight)
	}
	if said := l.log.String(); !strings.Contains(said, "set back\" container=web found="+itoa(cpus[1])+" granted="+itoa(cpus[0])) {
		t.Errorf("not said: %s", said)
	}
	l.log.Reset()
	l.nudge()
	if said := l.log.String(); said != "" {
		t.Errorf("nobody has changed anything, and it says %s", said)
	}
}

// A killed candor has made a group and not saved it: an empty one goes, a
// populated one is adopted with the CPUs that it has.
func TestOrphanGroups(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	all := cpuset.Of(cpus...)
	if err := l.tree.Group("empty").Create(cgroup.Settings{CPUs: all}, 0); err != nil {
		t.Fatal(err)
	}
	l.must(ask("web", "1"), "wait")
	l.forge(func(s *state) { s.Grants = nil })
	l.nudge()
	l.check("web")
	if s, _ := l.Snapshot(); s.Grants[0].Exclusive.Count() != 1 || s.Grants[0].Class != hybrid.Sensitive {
		t.Errorf("adopted as %+v", s.Grants[0])
	}
}

// Nested groups with CPUs of their own do not keep a container from shrinking.
func TestNestedCpuset(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	log := l.must(flexible("log", "0"), "wait")
	nested := l.nest("log", "inner", cpuset.Of(cpus...), log.cmd.Process.Pid)
	web := l.must(ask("web", "1"), "wait")
	l.check("log", "web")
	has, err := cpuset.Parse(strings.TrimSpace(nested()))
	if err != nil || has.IsEmpty() || has.Overlaps(&web.CPUs) {
		t.Errorf("nested group has %v beside web's %v: %v", has, web.CPUs, err)
	}
	web.stop()
	log.stop()
}

// nest makes a group inside a container, as Docker in a container does, and
// moves a process there. The returned function reads its CPUs.
func (l *lab) nest(name, inner string, cpus cpuset.Set, pid int) (read func() string) {
	l.Helper()
	self := findCpusetDir(l.T, pid)
	dir := filepath.Join(self, inner)
	write := func(file, value string) {
		l.Helper()
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			l.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	if l.tree.Version() == 1 {
		mems, err := os.ReadFile(filepath.Join(self, "cpuset.mems"))
		if err != nil {
			l.Fatal(err)
		}
		write(filepath.Join(dir, "cpuset.mems"), string(mems))
		write(filepath.Join(dir, "cpuset.cpus"), cpus.String())
		write(filepath.Join(dir, "cgroup.procs"), itoa(pid))
		return func() string { data, _ := os.ReadFile(filepath.Join(dir, "cpuset.cpus")); return string(data) }
	}
	write(filepath.Join(dir, "cgroup.procs"), itoa(pid))
	write(filepath.Join(self, "cgroup.subtree_control"), "+cpuset")
	write(filepath.Join(dir, "cpuset.cpus"), cpus.String())
	return func() string {
		data, _ := os.ReadFile(filepath.Join(dir, "cpuset.cpus.effective"))
		return string(data)
	}
}

// A thread's own affinity inside its cpuset outlasts what Candor does to others,
// and marks the container as one whose fraction stays where the kernel would reset it.
func TestPinnedThreads(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	a := l.must(ask("a", "1.3"), "pin")
	io.WriteString(a.in, "\n")
	if got := a.line(t); got != "pinned" {
		t.Fatal(got)
	}
	if !pinsThreads([]int{a.cmd.Process.Pid}, a.CPUs) {
		t.Error("the affinity of its thread was not seen")
	}
	before := affinity(t, a.cmd.Process.Pid)
	b := l.must(ask("b", "0.4"), "wait")
	b.stop()
	l.orphan()
	l.nudge()
	l.check("a")
	if after := affinity(t, a.cmd.Process.Pid); after != before {
		t.Errorf("affinity %v became %v", before, after)
	}
	a.stop()
	free := l.must(ask("free", "1.3"), "wait")
	if pinsThreads([]int{free.cmd.Process.Pid}, free.CPUs) {
		t.Error("seen an affinity that nobody has set")
	}
}

func affinity(t *testing.T, pid int) cpuset.Set {
	t.Helper()
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &mask); err != nil {
		t.Fatal(err)
	}
	var cpus cpuset.Set
	for cpu := range cpuset.Max {
		if mask.IsSet(cpu) {
			cpus.Add(cpu)
		}
	}
	return cpus
}

// Where a fraction has to move, it is not that of a container whose threads
// have an affinity of their own, if the kernel would reset it.
func TestPinnedFractionStays(t *testing.T) {
	l := newLab(t)
	cpus := len(l.needCPUs(6))
	a := l.must(ask("a", "1.3"), "pin")
	io.WriteString(a.in, "\n")
	if got := a.line(t); got != "pinned" {
		t.Fatal(got)
	}
	l.must(ask("c", "1.4"), "wait")
	before := affinity(t, a.cmd.Process.Pid)
	// One CPU more than is free: the fractions of a and c have to share one.
	l.must(ask("big", itoa(cpus-3)), "wait")
	l.check("a", "c", "big")
	if after := affinity(t, a.cmd.Process.Pid); after != before {
		t.Errorf("affinity %v became %v", before, after)
	}
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if is, _ := s.Grant("a"); !cpusetKeepsAffinity() && is.CPUs != a.CPUs {
		t.Errorf("a had %v and has %v", a.CPUs, is.CPUs)
	} else if is.Immovable {
		t.Error("what was seen once is in the state for good")
	}
}

// CPUs that the administrator reserves are left by the next operation.
func TestReservedLater(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	log := l.must(flexible("log", "0"), "wait")
	log.stop()
	if err := l.Release(ctx, "log", false); err != nil {
		t.Fatal(err)
	}
	if err := SaveOptions(l.config, NodeOptions{Reserved: web.CPUs}); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	l.check("web")
	has, err := l.tree.Group("web").Settings()
	if err != nil || has.CPUs.Overlaps(&web.CPUs) || has.CPUs.Count() != 1 {
		t.Errorf("web has %v of reserved %v, %v", has.CPUs, web.CPUs, err)
	}
}

// On request the memory comes from the CPUs' NUMA nodes.
func TestMems(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	a := ask("web", "1")
	a.Mems, a.Wish = true, hybrid.SingleNUMA
	web := l.must(a, "wait")
	l.must(ask("db", "0.5"), "wait")
	node, err := l.newNode()
	if err != nil {
		t.Fatal(err)
	}
	var near, all cpuset.Set
	for _, n := range node.Machine().Nodes {
		all.Add(n.ID)
		if n.CPUs.Overlaps(&web.CPUs) {
			near.Add(n.ID)
		}
	}
	for name, want := range map[string]cpuset.Set{"web": near, "db": all} {
		if has, err := l.tree.Group(name).Settings(); err != nil || has.Mems != want {
			t.Errorf("%s has memory nodes %v, want %v: %v", name, has.Mems, want, err)
		}
	}
}

// An operation that has nothing to change writes nothing.
func TestNothingToDo(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("web", "1.3"), "wait")
	l.must(flexible("log", "0.2"), "wait")
	l.nudge()
	groups, err := l.observe()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(l.store.stateFile())
	if err != nil {
		t.Fatal(err)
	}
	err = l.operate(ctx, func(op *operation) error {
		for _, target := range op.targets(op.grants()) {
			if !op.same(groups[target.name].settings, target.settings) {
				t.Errorf("%s: has %+v, to be %+v", target.name, groups[target.name].settings, target.settings)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(l.store.stateFile()); err != nil || !os.SameFile(before, after) {
		t.Errorf("the state was written anew: %v", err)
	}
}
