package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// A cutContext is done after some calls of Err.
type cutContext struct {
	context.Context
	remaining int
}

func (c *cutContext) Err() error {
	if c.remaining--; c.remaining < 0 {
		return context.Canceled
	}
	return nil
}

// TestGiveBackCut: a GiveBack that ends before any of its changes is completed by the next GiveBack, also if a container
// ends in between, and if other processes try to change the state.
func TestGiveBackCut(t *testing.T) {
	partial := 0
	for cut := 0; ; cut++ {
		l := newLab(t)
		l.needCPUs(2)
		own := ask("own", "0.5")
		own.Engine = Engine{Name: "own"} // as the container of an OCI runtime wrapper
		own.EngineRequest = &EngineRequest{QuotaUs: 50000, PeriodUs: 100000, Shares: 512}
		ending, _ := l.must(flexible("ending", "0.1"), "wait"), l.must(own, "wait")
		l.must(ask("web", "0.5"), "wait")
		b, err := l.StartGiveBack(false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Try(&cutContext{ctx, cut})
		b.Close()
		if err == nil { // not cut
			if cut < 6 || partial == 0 {
				t.Errorf("%d cuts, %d with some containers given back", cut, partial)
			}
			return
		}
		if !errors.Is(err, context.Canceled) || !l.IsInUse() {
			t.Fatalf("cut %d: %v, in use %v", cut, err, l.IsInUse())
		}
		_, isFirst := l.givenBack("ending")
		_, isLast := l.givenBack("web")
		if isFirst && !isLast {
			partial++
		}
		ending.stop()
		if err := l.ReleaseEnded(ctx, "ending"); err != nil {
			t.Errorf("cut %d: %v", cut, err)
		}
		for name, err := range map[string]error{
			"reconcile": l.Reconcile(ctx),
			"allocate":  func() error { _, err := l.Allocate(ctx, ask("new", "0.1")); return err }(),
			"resize":    func() error { _, _, err := l.Resize(ctx, "web", 400, 0); return err }(),
		} {
			if !errors.Is(err, ErrGivingBack) {
				t.Errorf("cut %d: %s: %v", cut, name, err)
			}
		}
		if _, isWide := l.givenBack("web"); isWide != isLast {
			t.Errorf("cut %d: web was changed", cut)
		}
		if _, err := l.giveBack(false); err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		l.isPlain("web", 50*time.Millisecond)
		s, isWide := l.givenBack("own")
		if want := l.tree.RuntimeWeight(512, ""); !isWide || s.Weight != want || s.Quota != 50*time.Millisecond {
			t.Errorf("cut %d: own has %+v (CPUs of the parent %v), want weight %d", cut, s, isWide, want)
		}
		l.isRemoved()
	}
}

// TestGiveBackRemoveCut: after a GiveBack that was cut before the removal of each file of the state in turn, the next GiveBack
// changes no setting. The state has limits of updates, which the request files do not have.
func TestGiveBackRemoveCut(t *testing.T) {
	cuts := 0
	for isCut := true; isCut; cuts++ {
		l := newLab(t)
		l.needCPUs(2)
		own := ask("own", "0.1")
		own.Engine = Engine{Name: "own"} // as the container of an OCI runtime wrapper
		own.EngineRequest = &EngineRequest{QuotaUs: 10000, PeriodUs: 100000, Shares: 512}
		l.must(own, "wait")
		l.must(flexible("log", "0.1"), "wait")
		for _, name := range []string{"own", "log"} {
			if _, _, err := l.Resize(ctx, name, 150, 0); err != nil {
				t.Fatal(err)
			}
		}
		var files []string
		filepath.WalkDir(l.store.Dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (d.IsDir() || d.Type().IsRegular()) && path != l.store.Dir {
				files = append(files, path)
			}
			return err
		})
		if isCut = cuts < len(files); isCut {
			file := files[cuts]
			if err := unix.Mount(file, file, "", unix.MS_BIND, ""); err != nil { // so that its removal fails
				t.Fatal(err)
			}
			_, err := l.giveBack(false)
			if unmounted := unix.Unmount(file, unix.MNT_DETACH); !errors.Is(err, unix.EBUSY) || unmounted != nil {
				t.Fatalf("%s: %v, want %v; %v", file, err, unix.EBUSY, unmounted)
			}
		}
		if _, err := l.giveBack(false); err != nil {
			t.Fatal(err)
		}
		l.isPlain("log", 15*time.Millisecond)
		s, isWide := l.givenBack("own")
		if want := l.tree.RuntimeWeight(512, ""); !isWide || s.Weight != want || s.Quota != 15*time.Millisecond {
			t.Errorf("own has %+v (CPUs of the parent %v), want weight %d", s, isWide, want)
		}
		l.isRemoved()
		if t.Failed() {
			t.Fatalf("after the cut at %s", append(files, "the end")[cuts])
		}
	}
	if cuts < 8 {
		t.Errorf("only %d cuts", cuts)
	}
}

// TestGiveBackCanceled: an agent that starts after an interrupted GiveBack cancels it, and the grants get their CPUs back.
func TestGiveBackCanceled(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	l.must(flexible("log", "0.5"), "wait")
	l.must(ask("web", "1"), "wait")
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Try(&cutContext{ctx, 4}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.Close()
	release, err := l.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	l.nudge()
	l.check("log", "web")
}

// TestGiveBackCanceledRemoval: if the interrupted GiveBack has already removed request files, the agent writes them again.
func TestGiveBackCanceledRemoval(t *testing.T) {
	l := newLab(t)
	l.must(flexible("log", "0.1"), "wait")
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Try(&cutContext{ctx, 1}); !errors.Is(err, context.Canceled) { // after the mark, before the first change
		t.Fatal(err)
	}
	b.Close()
	if err := os.RemoveAll(filepath.Join(l.store.Dir, "requests")); err != nil {
		t.Fatal(err)
	}
	release, err := l.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var g Grant
	g.ID = "log"
	if !l.store.LoadRequest(&g) || g.Limit != 100 {
		t.Errorf("the request of log: %+v", g)
	}
}

// TestGiveBackFull: a GiveBack needs no space in the file system of the state.
func TestGiveBackFull(t *testing.T) {
	dir := smallDisk(t, "size=400k")
	l := labIn(t, filepath.Join(dir, "state"))
	l.needCPUs(2)
	l.must(flexible("log", "0.5"), "wait")
	web := ask("web", "1")
	web.View = spec.ViewFullStat
	l.must(web, "wait")
	l.openLive(true) // the process that refreshes the view closes its files when the GiveBack begins
	// An empty file needs space, as the file of a machine with many CPUs does.
	if err := os.Truncate(filepath.Join(l.ViewDir("web"), "stat"), 0); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "fill"))
	if err := os.WriteFile(filepath.Join(dir, "more"), []byte("x"), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := l.giveBack(false); err != nil {
		t.Fatal(err)
	}
	l.isPlain("web", 100*time.Millisecond)
	l.isPlain("log", 50*time.Millisecond)
	l.isRemoved()
	if !strings.Contains(l.log.String(), "former CPUs in /proc/stat") {
		t.Errorf("the log does not report the file without space: %s", l.log)
	}
}

// TestGiveBackStarting: a container that its runtime is about to create, or is creating, is not given back before the start
// is over.
func TestGiveBackStarting(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	e := newEngine(l)
	sensitive := ask("web", "1")
	sensitive.View = spec.ViewAffinity
	web := l.mustAdmit(e.ask(sensitive, "web1"))
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	waits := func(when string) {
		t.Helper()
		if r, err := b.Try(ctx); err != nil || !errors.Is(r.Waiting, ErrStarting) || len(r.Changes) > 0 {
			t.Errorf("%s: %+v, %v; want %v", when, r, err, ErrStarting)
		}
	}
	waits("without a cgroup")
	e.run("web1", settingsOf(web))
	waits("with a cgroup")
	b.startTime = 0
	if r, err := b.Try(ctx); err != nil || r.Waiting != nil || len(r.Changes) == 0 || l.IsInUse() {
		t.Errorf("after the start: %+v, %v, in use %v", r, err, l.IsInUse())
	}
}

// TestGiveBackFailedStart: a container whose start has failed, and with it the OCI runtime wrapper or the agent, does not
// delay a GiveBack for long.
func TestGiveBackFailedStart(t *testing.T) {
	l := newLab(t)
	e := newEngine(l)
	l.mustAdmit(e.ask(flexible("pod", "0.1"), "pod1"))
	if _, err := l.Allocate(ctx, flexible("docker", "0.1")); err != nil {
		t.Fatal(err)
	}
	l.orphan()
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r, err := b.Try(ctx)
	if waits := "default/pod1/pod: " + ErrStarting.Error(); err != nil || r.Waiting == nil || r.Waiting.Error() != waits {
		t.Errorf("at once: %v, %v; want %q", r.Waiting, err, waits)
	}
	b.startTime = 0
	if r, err := b.Try(ctx); err != nil || r.Waiting != nil || l.IsInUse() {
		t.Errorf("later: %+v, %v", r, err)
	}
}

// TestGiveBackLeasedView: while a process in the container holds a lease on its view, the other settings are given back, and
// the state remains.
func TestGiveBackLeasedView(t *testing.T) {
	l := newLab(t)
	l.must(ask("web", "0.5"), "wait")
	l.views.close("web") // as if the candor run process had ended
	fd, err := unix.Open(filepath.Join(l.ViewDir("web"), "cpuinfo"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.giveBack(false); !errors.Is(err, view.ErrLeased) || !l.IsInUse() {
		t.Errorf("error %v, in use %v", err, l.IsInUse())
	}
	l.isPlain("web", 50*time.Millisecond)
	unix.Close(fd)
	if _, err := l.giveBack(false); err != nil || l.IsInUse() {
		t.Errorf("%v, in use %v", err, l.IsInUse())
	}
}

// TestGiveBackRepeatedLeases: between two attempts, a process in the container gives up its leases on the files of the view and takes
// new ones, which the kernel refuses.
func TestGiveBackRepeatedLeases(t *testing.T) {
	l := newLab(t)
	a, files := ask("web", "0.5"), []string{"online", "cpuinfo", "stat"}
	a.View = spec.ViewCPUStat
	if l.tree.HasMemory() {
		a, files = withMemory(a, 64*mib), append(files, "meminfo", "swaps")
		a.View = spec.ViewFullStat
	}
	l.must(a, "wait")
	l.views.close("web") // as if the candor run process had ended
	var fds []int
	for _, name := range files {
		fd, err := unix.Open(filepath.Join(l.ViewDir("web"), name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		fds = append(fds, fd)
	}
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l.wait("the give-back", func() bool {
		r, err := b.Try(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // candor uninstall waits for a second
		for _, fd := range fds {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		}
		return r.Waiting == nil
	})
	if l.IsInUse() {
		t.Error("the state remains")
	}
}

// TestGiveBackDamagedView: a view that cannot be parsed is rewritten, and a view that cannot be written does not prevent the
// other settings.
func TestGiveBackDamagedView(t *testing.T) {
	l := newLab(t)
	l.must(ask("web", "0.5"), "wait")
	l.views.close("web")
	online := filepath.Join(l.ViewDir("web"), "online")
	if err := os.WriteFile(online, []byte("damaged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cpuinfo := filepath.Join(l.ViewDir("web"), "cpuinfo")
	if err := errors.Join(os.Remove(cpuinfo), os.Mkdir(cpuinfo, 0o755)); err != nil {
		t.Fatal(err)
	}
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Try(ctx)
	b.Close()
	if err == nil || !strings.Contains(err.Error(), "cpuinfo") || r.Waiting != nil {
		t.Errorf("with a directory in place of cpuinfo: %v, waiting %v", err, r.Waiting)
	}
	l.isPlain("web", 50*time.Millisecond)
	if err := os.Remove(cpuinfo); err != nil {
		t.Fatal(err)
	}
	seen, err := os.Open(online)
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	if _, err := l.giveBack(false); err != nil || l.IsInUse() {
		t.Fatalf("%v, in use %v", err, l.IsInUse())
	}
	machine, err := l.machine.get()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 1000)
	n, _ := seen.ReadAt(text, 0)
	if shown, err := cpuset.Parse(trimmed(text[:n])); err != nil || shown != machine.Online {
		t.Errorf("the view shows %q (%v), want %v", text[:n], err, machine.Online)
	}
}

// TestGiveBackLeasedQuota: GiveBack waits until another process has ended its lease, or until the lease is over, and does
// not touch the quota before.
func TestGiveBackLeasedQuota(t *testing.T) {
	l := newLab(t)
	l.must(ask("web", "0.5"), "wait")
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	to, err := state.ProcessOf(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	l.forge(func(s *state.State) {
		g := *s.Grants[0]
		g.Lease = state.Lease{To: to, Until: state.SinceBoot() + time.Hour, Max: time.Second}
		s.Grants[0] = &g
	})
	before, _ := l.givenBack("web")
	for range 2 { // a second call finds the same lease
		if _, err := l.giveBack(false); !errors.Is(err, errQuotaLeased) || !strings.Contains(err.Error(), "(sleep)") {
			t.Errorf("error %v", err)
		}
	}
	if after, _ := l.givenBack("web"); after != before {
		t.Errorf("changed to %+v", after)
	}
	if err := (&control{Host: l.Host, self: to}).endLeases(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.giveBack(false); err != nil || l.IsInUse() {
		t.Errorf("after the lease: %v, in use %v", err, l.IsInUse())
	}
	l.isPlain("web", 50*time.Millisecond)
}

// TestGiveBackRaised: the loop that raises a quota ends its lease soon after the start of a GiveBack.
func TestGiveBackRaised(t *testing.T) {
	r := newRaised(t)
	r.rest()
	r.resume()
	r.awaitRaise()
	b, err := r.StartGiveBack(false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	start := time.Now()
	waitFor(t, "the end of the lease", func() bool {
		result, err := b.Try(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return result.Waiting == nil
	})
	if took := time.Since(start); took > leaseDuration/2 {
		t.Errorf("the lease ended after %v", took)
	}
	r.stop()
	if s, _ := r.givenBack("web"); s.Quota != 50*time.Millisecond {
		t.Errorf("quota %v", s.Quota)
	}
}

// TestGiveBackErrors: an error that repeats is distinguished from the containers that wait.
func TestGiveBackErrors(t *testing.T) {
	b := &giveBackAttempt{}
	for _, err := range []error{ErrStarting, view.ErrLeased, view.ErrRefreshed, errQuotaLeased, cgroup.ErrOwned} {
		b.fail("web", err)
	}
	if len(b.waiting) != 4 || len(b.failures) != 1 || !errors.Is(b.failures[0], cgroup.ErrOwned) {
		t.Errorf("waiting %v, failures %v", b.waiting, b.failures)
	}
}

// TestAgentMark: a GiveBack is refused while an agent runs, and an agent waits for the end of a GiveBack.
func TestAgentMark(t *testing.T) {
	l := newLab(t)
	if err := l.CheckNoAgent(); err != nil {
		t.Fatal(err)
	}
	release, err := l.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.StartGiveBack(false); !errors.Is(err, ErrAgentRuns) || errors.Is(err, ErrGivingBack) {
		t.Errorf("beside an agent: %v", err)
	}
	if b, err := l.StartGiveBack(true); err != nil {
		t.Errorf("a dry run beside an agent: %v", err)
	} else {
		b.Close()
	}
	release()
	b, err := l.StartGiveBack(false)
	if err != nil {
		t.Fatalf("after the agent: %v", err)
	}
	if _, err := l.lockAgentFile(unix.LOCK_SH, 0); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("beside a GiveBack: %v", err)
	}
	if _, err := l.StartGiveBack(false); !errors.Is(err, ErrGivingBack) {
		t.Errorf("a second GiveBack: %v", err)
	}
	if err := l.CheckNoAgent(); !errors.Is(err, ErrGivingBack) {
		t.Errorf("no agent beside a GiveBack: %v", err)
	}
	held := make(chan error)
	go func() {
		release, err := l.HoldAgent()
		if err == nil {
			defer release()
			err = l.CheckNoAgent() // the agent has the file of this name, and not the removed file
		}
		held <- err
	}()
	time.Sleep(100 * time.Millisecond)
	if _, err := b.Try(ctx); err != nil {
		t.Error(err)
	}
	b.Close()
	if err := <-held; !errors.Is(err, ErrAgentRuns) {
		t.Errorf("the agent after a GiveBack: %v", err)
	}
}

// TestOperateIfInUse: an operation of a process from the time before a GiveBack changes nothing and makes no state.
func TestOperateIfInUse(t *testing.T) {
	l := newLab(t)
	called := false
	isInUse, err := l.operateIfInUse(context.Background(), scope{}, func(*operation) error { called = true; return nil })
	if isInUse || err != nil || called || l.IsInUse() {
		t.Errorf("without a state: in use %v, %v, called %v, state %v", isInUse, err, called, l.IsInUse())
	}
	l.nudge()
	isInUse, err = l.operateIfInUse(context.Background(), scope{}, func(*operation) error { called = true; return nil })
	if !isInUse || err != nil || !called {
		t.Errorf("with a state: in use %v, %v, called %v", isInUse, err, called)
	}
}
