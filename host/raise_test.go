package host

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/burst"
)

// bursting is an allocation whose quota is raised.
func bursting(name, cpu string, by BurstBy) Allocation {
	a := flexible(name, cpu)
	a.Burst.By = by
	return a
}

// quotaOf is what a group has.
func (l *lab) quotaOf(name string) time.Duration {
	l.Helper()
	has, err := l.tree.Group(name).CPUTime()
	if err != nil {
		l.Fatal(err)
	}
	return has.Quota
}

// An idleHost is one whose CPUs have nothing else to do, whatever runs on the machine.
type idleHost struct{ *raising }

func (idleHost) Idle() (map[int]time.Duration, error) {
	idle := map[int]time.Duration{}
	for cpu := range 64 {
		idle[cpu] = sinceBoot()
	}
	return idle, nil
}

// The loop on the kernel: a group that has rested and then takes all that it gets is raised, goes back when it has spent what it
// saved, and has used no more than that and its limit. Operations meanwhile leave it alone.
func TestRaise(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(bursting("web", "0.5", BurstAuto), "spin")
	group := l.tree.Group("web")
	heavier, err := group.CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	self, err := processOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	mine := func(*Grant) bool { return true }
	go func() {
		ended <- burst.New(idleHost{&raising{Host: l.Host, mine: mine, self: self}}, l.Host.log).Run(ctx)
	}()

	stopped := time.Now()
	web.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(1200 * time.Millisecond) // the rest in which it saves up: more than it may
	used := func() time.Duration {
		stat, err := group.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return stat.CPU
	}
	before, began := used(), time.Now()
	web.cmd.Process.Signal(syscall.SIGCONT)
	l.await("raised", func() bool { return l.quotaOf("web") > heavier.Quota })
	l.nudge()
	l.await("back", func() bool { return l.quotaOf("web") == heavier.Quota })
	took, spent := time.Since(began), used()-before
	// 400 ms are the most that it saves up, and the kernel saves 50 ms; the rest is what is used until a look.
	most := took/2 + 450*time.Millisecond + 350*time.Millisecond
	if spent > most {
		t.Errorf("used %v in %v, after a rest of %v: more than %v", spent, took, began.Sub(stopped), most)
	}
	s, err := l.store.load()
	if err != nil || s.Grants[0].Loan.To != self {
		t.Errorf("loan %+v, %v", s.Grants, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if said := l.log.String(); strings.Contains(said, "set back") {
		t.Errorf("an operation set it back: %s", said)
	}
}

// await waits until something is so.
func (l *lab) await(what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("not in a minute: %s", what)
		}
	}
}

// What an operation makes of a quota that is not what was granted: it stays within a loan, and goes back else.
func TestLoan(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(bursting("web", "0.5", BurstQuota), "wait")
	self, err := processOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	later := sinceBoot().Truncate(time.Millisecond) + time.Hour
	const base = 50 * time.Millisecond
	for _, c := range []struct {
		name string
		loan Loan
		has  time.Duration
		then func() error
		want time.Duration
	}{
		{"none", Loan{}, 2 * base, nil, base},
		{"good", Loan{self, later}, 2 * base, nil, 2 * base},
		{"more than it may", Loan{self, later}, 4 * base, nil, base},
		{"less than its limit", Loan{self, later}, base / 2, nil, base},
		{"late", Loan{self, time.Second}, 2 * base, nil, base},
		{"to a process that has died", Loan{dead(t), later}, 2 * base, nil, base},
		{"resized", Loan{self, later}, 2 * base, func() error { _, _, err := l.Resize(ctx, "web", 400, 0); return err }, 40 * time.Millisecond},
		{"resized back", Loan{self, later}, 2 * base, func() error { _, _, err := l.Resize(ctx, "web", 500, 0); return err }, base},
		{"and the state is lost", Loan{self, later}, 2 * base, func() error { return os.Remove(l.store.stateFile()) }, base},
	} {
		l.forge(func(s *state) { s.Grants[0].Loan = c.loan })
		if err := l.tree.Group("web").SetQuota(c.has); err != nil {
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
		s, err := l.store.load()
		if err != nil || s.Grants[0].Limit > 500 || !c.loan.holds() && s.Grants[0].Loan != (Loan{}) {
			t.Errorf("%s: %+v, %v", c.name, s.Grants[0], err)
		}
	}
}

// Which of the containers are looked after, and how much they may get.
func TestMostQuota(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	r := &raising{Host: l.Host, mine: func(*Grant) bool { return true }}
	for _, c := range []struct {
		a    Allocation
		most time.Duration // 0: it is not looked after
	}{
		{bursting("web", "0.5", BurstAuto), 150 * time.Millisecond},
		{bursting("web", "1.5", BurstQuota), time.Duration(len(l.needCPUs(2))) * 100 * time.Millisecond},
		{bursting("web", "0.5", BurstKernel), 0},
		{sensitive(bursting("web", "1.5", BurstAuto)), 200 * time.Millisecond},
		{sensitive(bursting("web", "1", BurstAuto)), 0}, // no quota
	} {
		n := l.must(c.a, "wait")
		groups, err := r.Groups()
		switch {
		case err != nil:
			t.Fatal(err)
		case len(groups) != min(int(c.most), 1):
			t.Errorf("%s, %v, %v: %d groups", c.a.Class, c.a.Limit, c.a.Burst, len(groups))
		case c.most > 0 && (groups[0].Most > c.most || groups[0].Most <= groups[0].Quota):
			t.Errorf("%s, %v, %v: at most %v, want %v", c.a.Class, c.a.Limit, c.a.Burst, groups[0].Most, c.most)
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

func sensitive(a Allocation) Allocation {
	sensitive := ask(a.ID, a.Limit.String())
	sensitive.Burst = a.Burst
	return sensitive
}
