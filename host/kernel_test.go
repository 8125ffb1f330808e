package host

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

var ctx = context.Background()

// The life of a container: other containers leave its CPUs, and get them back at its end.
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

// A resize changes quota, CPUs and view; a refused resize changes nothing.
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
	before, _ := os.ReadFile(l.store.File())
	var refusal *hybrid.Refusal
	if _, _, err := l.Resize(ctx, "web", hybrid.Milli(1000*(len(cpus)+1)), 0); !errors.As(err, &refusal) {
		t.Errorf("more than the machine has: %v", err)
	}
	if _, _, err := l.Resize(ctx, "web", 5, 0); !errors.Is(err, ErrBadSpec) {
		t.Errorf("less than the kernel takes: %v", err)
	}
	if after, _ := os.ReadFile(l.store.File()); string(after) != string(before) {
		t.Errorf("a refused resize changed the state:\n%s", after)
	}
	l.check("web")
}

// A flexible container keeps its explicit guarantee, including NoGuarantee, through resizes without a guarantee, also
// if the limit is added or removed.
func TestResizeKeepsGuarantee(t *testing.T) {
	l := newLab(t)
	nothing := flexible("batch", "0")
	nothing.Guarantee = hybrid.NoGuarantee
	l.must(nothing, "wait")
	for _, step := range []struct{ limit, asked, want hybrid.Milli }{
		{500, 0, 0}, {0, 0, 0}, {500, 100, 100}, {300, 0, 100}, {0, 0, 100}, {300, hybrid.NoGuarantee, 0}, {200, 0, 0},
	} {
		_, after, err := l.Resize(ctx, "batch", step.limit, step.asked)
		if err != nil || after.Guaranteed() != step.want {
			t.Fatalf("%+v: guaranteed %v, %v", step, after, err)
		}
		s, err := l.Snapshot()
		if err != nil || s.Node.Guaranteed() != step.want || s.Grants[0].Guaranteed() != step.want {
			t.Fatalf("%+v: the state has %+v, %v", step, s.Grants, err)
		}
	}
}

// TestReap: the next operation reaps an ended container, unless its creator lives.
func TestReap(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "0.5"), "wait")
	web.stop()
	l.nudge()
	l.check("web") // its creator is this process

	later := ask("later", "0.2")
	later.Engine.Name = "box"
	if _, err := l.Allocate(ctx, later); err != nil {
		t.Fatal(err)
	}
	s, err := l.Snapshot() // as another process reads the state
	if err != nil {
		t.Fatal(err)
	}
	if g, err := s.Grant("later"); err != nil || g.Engine.DisplayName().String() != "box" || g.Engine.Cgroup != "" {
		t.Errorf("the name in the engine: %+v, %v", g, err)
	}
	late := ask("late", "0.2")
	late.Deadline = time.Nanosecond
	if _, err := l.Allocate(ctx, late); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	l.check("web", "later") // later has no cgroup yet, and its creator lives

	l.forge(func(s *state.State) { s.Grants[0].State = Held })
	l.orphan()
	l.nudge()
	l.check("web") // held
	if err := l.Release(ctx, "web", false); err != nil {
		t.Fatal(err)
	}
	l.check()
}

// A running container keeps its CPUs after its creator was killed, until it ends.
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

// A pending container becomes running when processes appear in its cgroup.
func TestPendingTurnsRunning(t *testing.T) {
	l := newLab(t)
	web := l.must(ask("web", "1"), "wait")
	l.forge(func(s *state.State) { s.Grants[0].State, s.Grants[0].Deadline = Pending, 1 })
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

// After foreign writes to cpusets and quotas, the next operation restores them.
func TestDrift(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	web := l.must(ask("web", "0.5"), "wait")
	l.must(ask("db", "0.7"), "wait")
	l.must(flexible("log", "0"), "wait")
	free := cpuset.Of(cpus...).Minus(web.CPUs)
	other := free.First()
	for _, name := range []string{"web", "db", "log"} {
		err := l.tree.Group(name).Apply(cgroup.Settings{CPUs: cpuset.Of(other), Quota: 30 * time.Millisecond, Weight: 50})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.nudge()
	l.check("web", "db", "log")
	if has, _ := l.tree.Group("web").Settings(); has.Weight == 50 {
		t.Errorf("weight %d stayed", has.Weight)
	}
	if logged := l.log.String(); !strings.Contains(logged, "that differ from the grant\" container=web found="+itoa(other)+" granted="+web.CPUs.String()) {
		t.Errorf("not logged: %s", logged)
	}
	l.log.Reset()
	l.nudge()
	if logged := l.log.String(); logged != "" {
		t.Errorf("nothing has changed, but the log has %s", logged)
	}
}

// TestOrphanGroups: a candor process was killed after it created a cgroup and before it saved the state. An
// empty cgroup is removed; a populated cgroup is adopted with its CPUs.
func TestOrphanGroups(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	all := cpuset.Of(cpus...)
	if err := l.tree.Group("empty").Create(cgroup.Settings{CPUs: all}, 0); err != nil {
		t.Fatal(err)
	}
	l.must(ask("web", "1"), "wait")
	l.forge(func(s *state.State) { s.Grants = nil })
	l.nudge()
	l.check("web")
	if s, _ := l.Snapshot(); s.Grants[0].Exclusive.Count() != 1 || s.Grants[0].Class != hybrid.Sensitive {
		t.Errorf("adopted as %+v", s.Grants[0])
	}
}

// At the next operation, containers leave newly reserved CPUs.
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

// On request a container's memory comes from the NUMA nodes of its CPUs.
func TestMems(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	a := ask("web", "1")
	a.Mems, a.Topology = true, hybrid.SingleNUMA
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

// An operation without changes writes nothing.
func TestOperationWithoutChange(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(ask("web", "1.3"), "wait")
	l.must(flexible("log", "0.2"), "wait")
	l.nudge()
	groups, err := l.observe()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(l.store.File())
	if err != nil {
		t.Fatal(err)
	}
	err = l.operate(ctx, func(op *operation) error {
		for _, target := range op.targets(op.grants()) {
			if !op.hasSettings(groups[target.name], groups[target.name].settings, target.settings) {
				t.Errorf("%s: has %+v, to be %+v", target.name, groups[target.name].settings, target.settings)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(l.store.File()); err != nil || !os.SameFile(before, after) {
		t.Errorf("the state was rewritten: %v", err)
	}
}
