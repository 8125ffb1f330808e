package host

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/quota"
	"github.com/candor-project/candor/spec"
)

// bursting returns an allocation whose quota can be raised.
func bursting(name, cpu string, by spec.BurstBy) Allocation {
	a := flexible(name, cpu)
	a.Burst.By = by
	return a
}

// quotaOf returns the quota of a cgroup.
func (l *lab) quotaOf(name string) time.Duration {
	l.Helper()
	has, err := l.tree.Group(name).CPULimits()
	if err != nil {
		l.Fatal(err)
	}
	return has.Quota
}

// TestRaise runs the loop on a real kernel. A cgroup that was idle and then spins gets a raised quota. After
// it has used its saved time, the quota returns to the base. The cgroup uses at most this time and its limit.
// Operations in between do not change the quota.
func TestRaise(t *testing.T) {
	r := newRaised(t)
	r.rest()
	used := r.resume()
	r.awaitRaise()
	r.nudge()
	r.await("back", func() bool { return r.back(r.base) })
	cpu, span := used()
	r.stop()
	// The loop saves at most 400 ms and the kernel 50 ms. The rest is the use of two CPUs until the next read.
	if most := span/2 + 450*time.Millisecond + 2*r.gap; cpu > most {
		t.Errorf("used %v in %v, up to %v between two looks: more than %v", cpu, span, r.gap, most)
	}
	s, err := r.store.Load()
	// Without bounds and Frozen, the previous release reads the lease.
	if err != nil || s.Grants[0].Lease != (state.Lease{To: r.self, Until: s.Grants[0].Lease.Until}) {
		t.Errorf("lease %+v, %v", s.Grants, err)
	}
	if logged := r.log.String(); strings.Contains(logged, "differ from the grant") {
		t.Errorf("an operation set it back: %s", logged)
	}
}

// TestGreedyMinute: over a minute, a greedy cgroup uses its limit within 2 %, even after an idle time.
func TestGreedyMinute(t *testing.T) {
	if os.Getenv("CANDOR_BURST_MINUTE") == "" {
		t.Skip("takes two minutes: CANDOR_BURST_MINUTE=1")
	}
	r := newRaised(t)
	for _, rests := range []bool{false, true} {
		if rests {
			r.rest()
		}
		used := r.resume()
		time.Sleep(time.Minute)
		cpu, span := used()
		mean := cpu.Seconds() / span.Seconds()
		t.Logf("rested %v: %.4f CPUs on average in %v, limit 0.5", rests, mean, span)
		if mean < 0.49 || mean > 0.51 {
			t.Errorf("rested %v: %.4f CPUs on average, limit 0.5", rests, mean)
		}
	}
}

// A process that ends restores the quotas that it has raised.
func TestRaiseEnds(t *testing.T) {
	r := newRaised(t)
	r.rest()
	r.resume()
	r.awaitRaise()
	r.stop()
	if got := r.quotaOf("web"); got != r.base {
		t.Errorf("quota %v, want %v", got, r.base)
	}
}

// await waits until a condition holds.
func (l *lab) await(what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("not in a minute: %s", what)
		}
	}
}

// An operation keeps a raised quota within a lease and resets it otherwise.
func TestLease(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(bursting("web", "0.5", spec.BurstQuota), "wait")
	self, err := state.ProcessOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	later := state.SinceBoot().Truncate(time.Millisecond) + time.Hour
	const base = 50 * time.Millisecond
	for _, c := range []struct {
		name  string
		lease state.Lease
		has   time.Duration
		then  func() error
		want  time.Duration
	}{
		{"none", state.Lease{}, 2 * base, nil, base},
		{"good", state.Lease{To: self, Until: later}, 2 * base, nil, 2 * base},
		{"more than it may", state.Lease{To: self, Until: later}, 4 * base, nil, base},
		{"less than its limit", state.Lease{To: self, Until: later}, base / 2, nil, base},
		{"within the bounds", state.Lease{To: self, Until: later, Min: base / 4, Max: 2 * base}, base / 2, nil, base / 2},
		{"below the bounds", state.Lease{To: self, Until: later, Min: base / 4, Max: 2 * base}, base / 5, nil, base},
		{"above the bounds", state.Lease{To: self, Until: later, Min: base / 4, Max: base}, 2 * base, nil, base},
		{"without a quota", state.Lease{To: self, Until: later, Min: base / 4, Max: base}, 0, nil, base},
		{"late", state.Lease{To: self, Until: time.Second}, 2 * base, nil, base},
		{"to a process that has died", state.Lease{To: dead(t), Until: later}, 2 * base, nil, base},
		{"resized", state.Lease{To: self, Until: later}, 2 * base, func() error { _, _, err := l.Resize(ctx, "web", 400, 0); return err }, 40 * time.Millisecond},
		{"resized back", state.Lease{To: self, Until: later}, 2 * base, func() error { _, _, err := l.Resize(ctx, "web", 500, 0); return err }, base},
		{"and the state is lost", state.Lease{To: self, Until: later}, 2 * base, func() error { return os.Remove(l.store.File()) }, base},
	} {
		l.forge(func(s *state.State) { s.Grants[0].Lease = c.lease })
		if err := l.tree.Group("web").SetQuota(c.has, 0); err != nil {
			t.Fatal(err)
		}
		if c.then != nil {
			if err := c.then(); err != nil {
				t.Fatal(err)
			}
		}
		l.nudge()
		if got := l.quotaOf("web"); got != c.want {
			t.Errorf("%s: %v becomes %v, want %v", c.name, c.has, got, c.want)
		}
		s, err := l.store.Load()
		if err != nil || s.Grants[0].Limit > 500 || !c.lease.IsHeld() && s.Grants[0].Lease != (state.Lease{}) {
			t.Errorf("%s: %+v, %v", c.name, s.Grants[0], err)
		}
	}
}

// TestHelpersOfMachine: the machine's option is the lowest level of accounting, and a container can choose a higher level.
func TestHelpersOfMachine(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct{ machine, asked, want spec.Helpers }{
		{spec.HelpersShow, spec.HelpersShow, spec.HelpersShow},
		{spec.HelpersCharge, spec.HelpersShow, spec.HelpersCharge},
		{spec.HelpersPlace, spec.HelpersCharge, spec.HelpersCharge},
	} {
		options, err := l.NodeOptions()
		if err != nil {
			t.Fatal(err)
		}
		options.Helpers = c.machine
		if err := l.SetOptions(options); err != nil {
			t.Fatal(err)
		}
		a := flexible("web", "0.5")
		a.Helpers = c.asked
		n := l.must(a, "wait")
		s, err := l.store.Load()
		if err != nil || s.Grants[0].Helpers != c.want {
			t.Errorf("machine %v, container %v: got %+v, %v, want %v", c.machine, c.asked, s.Grants, err, c.want)
		}
		n.kill()
		if err := l.Release(ctx, "web", true); err != nil {
			t.Fatal(err)
		}
	}
}

// TestThawAfterLease: a container that a process has frozen is thawed by the next operation if the process has died, and by an
// operation for the container itself.
func TestThawAfterLease(t *testing.T) {
	l := newLab(t)
	l.must(flexible("web", "0.5"), "wait")
	self, err := state.ProcessOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.tree.OpenFreezer("web")
	if errors.Is(err, cgroup.ErrNoFreezer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	until := state.SinceBoot().Truncate(time.Millisecond) + time.Hour
	for _, c := range []struct {
		name     string
		to       Process
		then     func() error
		isFrozen bool
	}{
		{"an operation for no container", self, func() error { l.nudge(); return nil }, true},
		{"a resize", self, func() error { _, _, err := l.Resize(ctx, "web", 400, 0); return err }, false},
		{"an operation after the death of the process", dead(t), func() error { l.nudge(); return nil }, false},
	} {
		l.forge(func(s *state.State) {
			s.Grants[0].Lease = state.Lease{To: c.to, Until: until, Min: time.Millisecond, Max: time.Second, Frozen: true}
		})
		if err := f.Freeze(); err != nil {
			t.Fatal(err)
		}
		if err := c.then(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/sys/fs/cgroup/freezer" + l.parent + "/web/candor-freezer/freezer.state")
		if err != nil {
			t.Fatal(err)
		}
		if isFrozen := strings.TrimSpace(string(text)) != "THAWED"; isFrozen != c.isFrozen {
			t.Errorf("after %s: %s", c.name, text)
		}
	}
}

// TestMaxQuota checks which containers the loop manages, and their maximum quota.
func TestMaxQuota(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	r := &control{Host: l.Host, selects: isRaised}
	for _, c := range []struct {
		a    Allocation
		most time.Duration // 0: the loop does not manage the container
	}{
		{bursting("web", "0.5", spec.BurstAuto), 150 * time.Millisecond},
		{bursting("web", "1.5", spec.BurstQuota), time.Duration(len(l.needCPUs(2))) * 100 * time.Millisecond},
		{bursting("web", "0.5", spec.BurstKernel), 0},
		{sensitive(bursting("web", "1.5", spec.BurstAuto)), 200 * time.Millisecond},
		{sensitive(bursting("web", "1", spec.BurstAuto)), 0}, // no quota
	} {
		n := l.must(c.a, "wait")
		groups, err := r.Groups()
		switch {
		case err != nil:
			t.Fatal(err)
		case len(groups) != min(int(c.most), 1):
			t.Errorf("%s, %v, %v: %d groups", c.a.Class, c.a.Limit, c.a.Burst, len(groups))
		case c.most > 0 && (groups[0].MaxQuota > c.most || groups[0].MaxQuota <= groups[0].Quota):
			t.Errorf("%s, %v, %v: at most %v, want %v", c.a.Class, c.a.Limit, c.a.Burst, groups[0].MaxQuota, c.most)
		}
		for _, g := range groups {
			g.Kernel.Close()
		}
		n.kill()
		if err := l.Release(ctx, "web", true); err != nil {
			t.Fatal(err)
		}
		if !r.Changed() {
			t.Error("released, and the state is the same")
		}
	}
}

// TestUnchangedGroups: after a lease, the loop does not open the cgroups again. It opens a cgroup again after a change of
// the grant, and after it has closed the cgroup.
func TestUnchangedGroups(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	self, err := state.OwnProcess()
	if err != nil {
		t.Fatal(err)
	}
	l.must(bursting("web", "0.5", spec.BurstQuota), "wait")
	c := &control{Host: l.Host, selects: isRaised, self: self}
	var last quota.Kernel
	for _, step := range []struct {
		name    string
		do      func() error
		isFresh bool
	}{
		{"first call", func() error { return nil }, true},
		{"lease", func() error { _, err := c.Lease(ctx, []string{"web"}); return err }, false},
		{"resize", func() error { _, _, err := l.Resize(ctx, "web", 400, 0); return err }, true},
		{"close", func() error { last.Close(); return nil }, true},
		{"later lease", func() error { _, err := c.Lease(ctx, []string{"web"}); return err }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if step.name != "close" && !c.Changed() {
			t.Errorf("%s: the state is the same", step.name)
		}
		groups, err := c.Groups()
		if err != nil || len(groups) != 1 || groups[0].Name != "web" || groups[0].Kernel != nil != step.isFresh {
			t.Fatalf("%s: %+v, %v", step.name, groups, err)
		}
		if step.isFresh {
			last = groups[0].Kernel
		}
		if g := c.grants["web"]; step.name == "lease" && (g == nil || g.Lease.To != self) {
			t.Errorf("%s: the grant is %+v", step.name, g)
		}
	}
	last.Close()
}

func sensitive(a Allocation) Allocation {
	sensitive := ask(a.ID, a.Limit.String())
	sensitive.Burst = a.Burst
	return sensitive
}

// BenchmarkRaise measures the cost of the loop for 50 waiting containers, each read ten times a second.
func BenchmarkRaise(b *testing.B) {
	l := newLab(b)
	const containers = 50
	for i := range containers {
		l.must(bursting("w"+itoa(i), "0.02", spec.BurstAuto), "wait")
	}
	spent := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, began := spent(), time.Now()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		if err := l.RaiseQuotas(ctx, func(*Grant) bool { return true }); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
	b.ReportMetric(100*(spent()-before).Seconds()/time.Since(began).Seconds()/containers, "%CPU/container")
}

// A quota rounded by systemd equals the original quota; every other higher quota is a raise, however small.
func TestRaisedQuota(t *testing.T) {
	l := newLab(t)
	n := l.must(flexible("web", "0.123"), "wait") // 12.3 ms per 100 ms; systemd makes 13 of it
	defer n.kill()
	g := &kernelGroup{Group: l.tree.Group("web"), units: &l.units}
	g.own.Quota, g.own.Period = 12300*time.Microsecond, 100*time.Millisecond
	for has, want := range map[time.Duration]time.Duration{12300: 12300, 13000: 12300, 12301: 12301, 12900: 12900, 13300: 13300, 30000: 30000} {
		if err := g.SetQuota(quota.Limit(has * time.Microsecond)); err != nil {
			t.Fatal(err)
		}
		if got, err := g.Quota(); err != nil || got != quota.Limit(want*time.Microsecond) {
			t.Errorf("%dus: taken for %v, %v, want %dus", has, got, err, want)
		}
	}
}
