package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

const mib = 1 << 20

// withMemory adds a memory limit to an allocation.
func withMemory(a Allocation, limit int64) Allocation {
	a.Memory = &MemoryRequest{cgroup.MemoryLimits{Memory: limit, Swap: limit}, true}
	return a
}

// needMemory skips the test without the memory controller.
func (l *lab) needMemory() {
	l.Helper()
	if !l.tree.HasMemory() {
		l.Skip("the memory controller is not mounted here")
	}
}

// total fails the test unless the view of a container shows a MemTotal.
func (l *lab) total(name string, want int64) {
	l.Helper()
	if total := l.shownTotal(name); total != want {
		l.Errorf("%s: MemTotal is %d, want %d", name, total, want)
	}
	if total, err := view.ReadMemTotal(l.store.ViewDir(name)); err != nil || total != want {
		l.Errorf("%s: for other processes, MemTotal is %d, %v; want %d", name, total, err, want)
	}
}

// shownTotal returns the MemTotal in bytes that a container reads.
func (l *lab) shownTotal(name string) (total int64) {
	l.Helper()
	text, err := os.ReadFile(filepath.Join(l.ViewDir(name), "meminfo"))
	if err != nil {
		l.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &total); err != nil {
		l.Fatalf("%.40q: %v", text, err)
	}
	return total * 1024
}

// closeLive closes the live files that this process has open, as if the process had ended.
func (l *lab) closeLive() { l.views.retainLive(func(string) bool { return false }) }

// showCPUs writes CPUs to the stat of a view, which no process has open.
func (l *lab) showCPUs(name string, cpus cpuset.Set) {
	l.Helper()
	files, err := view.OpenLiveExisting(l.ViewDir(name), view.LiveParts{Stat: true})
	if err != nil {
		l.Fatal(err)
	}
	defer files.Close()
	if err := files.WriteStat(view.StatSample{Time: state.SinceBoot(), CPUs: cpus}); err != nil {
		l.Fatal(err)
	}
}

// statCPUs fails the test unless the stat of a view has the CPUs of the container's cgroup.
func (l *lab) statCPUs(name string) {
	l.Helper()
	want, _, err := l.tree.Group(name).Effective()
	if err != nil {
		l.Fatal(err)
	}
	if cpus, err := view.ReadStatCPUs(l.ViewDir(name)); err != nil || cpus != want {
		l.Errorf("%s: stat shows CPUs %v, %v; want %v", name, cpus, err, want)
	}
}

// refresh runs RefreshViews until stop is called.
func (l *lab) refresh(h *Host) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.RefreshViews(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			l.Error(err)
		}
	}
}

// wait waits for a condition.
func (l *lab) wait(event string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("not in time: %s", event)
		}
	}
}

// TestMemoryLimit starts a program with a memory limit, changes the limit and ends the program.
func TestMemoryLimit(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	a := withMemory(ask("web", "0.5"), 128*mib)
	a.View = spec.ViewFullStat
	n := l.must(a, "wait")
	if m, err := l.MemoryOf(n.Grant); err != nil || m.Bound.Limit != 128*mib || n.View != spec.ViewFullStat {
		t.Errorf("%+v, %v, view %s", m.Bound, err, n.View)
	}
	l.total("web", 128*mib)
	text, err := os.ReadFile(l.store.File())
	if err != nil || !strings.HasPrefix(string(text), `{"version":3,"features":["live-view"],`) {
		t.Errorf("state %.80s, %v", text, err)
	}
	if s := l.InspectContainer(n.Grant).Memory; s == nil || s.Limit != 128*mib || s.Shown != 128*mib || s.IsStale {
		t.Errorf("%+v; this process has the files open", s)
	}
	stop := l.refresh(l.Host)
	defer func() { stop() }()
	before, after, undo, err := l.ResizeMemory(context.Background(), "web", 96*mib, nil)
	if err != nil || before.Memory != 128*mib || after.Memory != 96*mib || after.Swap != before.Swap {
		t.Fatalf("%+v, %+v, %v", before, after, err)
	}
	l.total("web", 96*mib)
	if err := undo(); err != nil {
		t.Error(err)
	}
	l.total("web", 128*mib)
	_, _, undo, err = l.ResizeMemory(context.Background(), "web", 96*mib, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := l.ResizeMemory(context.Background(), "web", 80*mib, nil); err != nil { // of another process
		t.Fatal(err)
	}
	if err := undo(); err != nil {
		t.Error(err)
	}
	l.total("web", 80*mib)
	stop()
	stop = func() {}
	n.stop()
	if err := l.Release(context.Background(), "web", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.store.ViewDir("web")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the view remains: %v", err)
	}
}

// TestUnknownMemTotal: a view that cannot be read is not a view without memory.
func TestUnknownMemTotal(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	n := l.must(withMemory(ask("web", "0.5"), 64*mib), "wait")
	file := filepath.Join(l.ViewDir("web"), "memtotal")
	if err := os.WriteFile(file, []byte("damaged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := l.InspectContainer(n.Grant).Memory; s == nil || s.Shown != 0 || !s.IsUnknown {
		t.Errorf("a damaged file: %+v", s)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if s := l.InspectContainer(n.Grant).Memory; s == nil || s.Shown != 0 || s.IsUnknown {
		t.Errorf("no file: %+v", s)
	}
}

// TestMemoryErrors: the error of a limit that the machine refuses has the next step.
func TestMemoryErrors(t *testing.T) {
	for err, want := range map[error]string{cgroup.ErrNoMemory: "candor doctor --check cgroup-memory", cgroup.ErrMemoryInUse: "use a higher limit"} {
		if got := memoryError(fmt.Errorf("cgroup web: %w", err)); !errors.Is(got, ErrBadSpec) || !errors.Is(got, err) || !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestMemoryLimitRefused: a refused limit starts no program and leaves no group.
func TestMemoryLimitRefused(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	for _, limit := range []int64{0, 1, 4*mib - 1, 1 << 60} {
		if _, err := l.start(withMemory(ask("web", "0.5"), limit), "wait"); !errors.Is(err, ErrBadSpec) || !strings.Contains(err.Error(), "must be 4 MiB (4m) to ") {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if exists, err := l.tree.Group("web").Exists(); exists || err != nil {
		t.Errorf("the group exists: %t, %v", exists, err)
	}
	n := l.must(ask("plain", "0.5"), "wait")
	if n.View != spec.ViewCPU {
		t.Errorf("without a limit: view %s", n.View)
	}
	if _, _, _, err := l.ResizeMemory(context.Background(), "plain", 64*mib, nil); !errors.Is(err, ErrBadSpec) || !strings.Contains(err.Error(), "start it with --memory") {
		t.Errorf("resize of a program without a limit: %v", err)
	}
	if _, _, _, err := l.ResizeMemory(context.Background(), "none", 64*mib, nil); err == nil {
		t.Error("resize of an unknown container")
	}
}

// TestEngineMemory: the view of an engine's container shows the requested limit before its cgroup exists, and then the limit of
// the cgroup. A second agent takes over after the first one has ended.
func TestEngineMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	l.views.isAll = true
	e := newEngine(l)
	ctx := context.Background()
	a := e.ask(withMemory(ask("web", "0.5"), 64*mib), "web")
	g, err := l.Admit(ctx, a, 0)
	if err != nil || g.View != spec.ViewFull {
		t.Fatalf("%+v, %v", g, err)
	}
	l.total("web", 64*mib)
	stop := l.refresh(l.Host)
	defer func() { stop() }()
	pid, end := e.process("wait")
	e.Cleanup(end)
	group := e.tree.Group("web")
	if err := group.Create(cgroup.Settings{CPUs: g.CPUs}, pid); err != nil {
		t.Fatal(err)
	}
	if _, err := group.AddMemory(pid); err != nil {
		t.Fatal(err)
	}
	set := func(limit int64) {
		t.Helper()
		if _, err := group.SetMemoryLimits(cgroup.MemoryLimits{Memory: limit, Swap: cgroup.NoMemoryLimit}); err != nil {
			t.Fatal(err)
		}
	}
	set(64 * mib)
	if err := l.ConfirmStart(ctx, a, pid); err != nil {
		t.Fatal(err)
	}
	l.total("web", 64*mib)
	set(48 * mib)
	if err := l.ReapplyAfterEngineWrite(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	l.total("web", 48*mib)

	other, err := Open(Options{StateDir: l.store.Dir, Config: l.config, Cgroup: cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}, Log: l.Host.log, HoldViews: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	stopOther := l.refresh(other)
	defer stopOther()
	stop()
	stop = func() {}
	l.views.retainLive(func(string) bool { return false })
	l.wait("the second agent has the view", func() bool {
		other.openLive(false)
		is, err := view.IsRefreshed(l.store.ViewDir("web"))
		return is && err == nil
	})
	set(32 * mib)
	l.wait("a read leads to a refresh", func() bool {
		return l.shownTotal("web") == 32*mib
	})
	other.views.retainLive(func(string) bool { return false })
	if s := l.InspectContainer(g).Memory; s == nil || s.Shown != 32*mib {
		t.Errorf("%+v", s)
	}
}

// TestPodMemory: a container without a memory limit sees the limit of its pod, and not the limit of a cgroup above the pod.
func TestPodMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	e := newEngine(l)
	pid, end := e.process("wait")
	e.Cleanup(end)
	other := e.tree.Group("other")
	if err := other.Create(cgroup.Settings{CPUs: l.usable()}, pid); err != nil {
		t.Fatal(err)
	}
	if _, err := other.AddMemory(pid); err != nil {
		t.Fatal(err)
	}
	for path, limit := range map[string]int64{e.base: 256 * mib, e.base + "/pod1": 64 * mib} {
		if _, err := l.tree.EngineGroup("pod", path).SetMemoryLimits(cgroup.MemoryLimits{Memory: limit, Swap: cgroup.NoMemoryLimit}); err != nil {
			t.Fatal(err)
		}
	}
	for pod, want := range map[string]spec.View{"1": spec.ViewFull, "2": spec.ViewCPU} { // the path of the cgroup does not name the pod 2
		name := "web" + pod
		a := e.ask(ask(name, "0.5"), name)
		a.Engine.Pod = pod
		g, err := l.Admit(context.Background(), a, 0)
		if err != nil || g.View != want {
			t.Fatalf("pod %s: %+v, %v; want the view %s", pod, g, err, want)
		}
		if want.HasMemory() {
			l.total(name, 64*mib)
		}
	}
}

// TestGiveBackMemory: a GiveBack waits for the process that refreshes a view. Then the files of a running container show the
// machine, also after the state is removed.
func TestGiveBackMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	a := withMemory(ask("web", "0.5"), 64*mib)
	a.View = spec.ViewFullStat
	l.must(a, "wait")
	machine, err := l.machine.get()
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string) *os.File { // as a bind mount: it outlives the file's name
		t.Helper()
		file, err := os.Open(filepath.Join(l.ViewDir("web"), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	meminfo, stat := open("meminfo"), open("stat")
	if _, err := l.giveBack(false); !errors.Is(err, view.ErrRefreshed) || !l.IsInUse() {
		t.Errorf("while a process refreshes the view: %v, in use %v", err, l.IsInUse())
	}
	l.total("web", 64*mib)
	l.openLive(true) // that process closes the files when it finds the mark of the GiveBack
	planned, err := l.giveBack(true)
	if err != nil || len(planned) != 1 || planned[0].Setting != SettingLive || !strings.HasPrefix(planned[0].Before, "64 MiB, stat of ") {
		t.Errorf("planned %+v, %v", planned, err)
	}
	l.total("web", 64*mib)
	if changes, err := l.giveBack(false); err != nil || !slices.Equal(changes, planned) {
		t.Errorf("%v: changed\n%v\nplanned\n%v", err, changes, planned)
	}
	l.isRemoved()
	text, err := io.ReadAll(meminfo)
	host, hostErr := os.ReadFile("/proc/meminfo")
	got, _, _ := strings.Cut(string(text), "\n")
	want, _, _ := strings.Cut(string(host), "\n")
	if err != nil || hostErr != nil || got != want {
		t.Errorf("the container reads %q, %v; want %q, %v", got, err, want, hostErr)
	}
	text, err = io.ReadAll(stat)
	if n := strings.Count(string(text), "cpu") - 1; err != nil || n != machine.Online.Count() {
		t.Errorf("the container reads the CPU time of %d CPUs, %v; want %d CPUs", n, err, machine.Online.Count())
	}
}

// TestGiveBackCanceledMemory: an agent that cancels an interrupted GiveBack refreshes the views again.
func TestGiveBackCanceledMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	a := withMemory(ask("web", "0.5"), 64*mib)
	a.View = spec.ViewFullStat
	l.must(a, "wait")
	l.closeLive()
	machine, err := view.ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	total := func() int64 { return l.shownTotal("web") }
	for cut := 0; total() != machine.Total/1024*1024; cut++ {
		b, err := l.StartGiveBack(false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Try(&cutContext{ctx, cut})
		b.Close()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cut %d: %v; the view was not given back", cut, err)
		}
	}
	l.views.isAll = true // as in an agent
	l.openLive(false)    // an agent that has looked for the mark just before
	if is, err := view.IsRefreshed(l.store.ViewDir("web")); is || err != nil || total() == 64*mib {
		t.Errorf("during the GiveBack, the view is refreshed: %v, %v, MemTotal %d", is, err, total())
	}
	release, err := l.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	defer l.refresh(l.Host)()
	l.wait("the memory limit in the view", func() bool { return total() == 64*mib })
	l.wait("the container's CPU time in the view", func() bool {
		text, err := os.ReadFile(filepath.Join(l.ViewDir("web"), "stat"))
		fields := strings.Fields(string(text)) // cpu, user, nice, system and idle, in ticks of 10 ms
		if err != nil || len(fields) < 5 || !strings.Contains(string(text), "\nprocesses 0\n") {
			return false
		}
		ticks, err := strconv.Atoi(fields[4])
		return err == nil && ticks < int(state.SinceBoot()/(10*time.Millisecond))/2 // the machine has been running for much longer than the container
	})
}

// TestGiveBackBrokenState: the process that refreshes a view ends its work at the start of a GiveBack also if the state cannot be read.
func TestGiveBackBrokenState(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	l.must(withMemory(ask("web", "0.5"), 64*mib), "wait")
	if err := os.WriteFile(l.store.File(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.views.isAll = true // as in candor view refresh
	stop := l.refresh(l.Host)
	defer stop()
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
		return r.Waiting == nil
	})
	l.isRemoved()
}

// TestFollowOwn: a process that refreshes only its own program does not read the state, and closes the files when a GiveBack begins.
func TestFollowOwn(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	l.must(withMemory(ask("web", "0.5"), 64*mib), "wait")
	if err := os.WriteFile(l.store.File(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer l.refresh(l.Host)()
	isWatched := func() bool {
		l.views.mu.Lock()
		defer l.views.mu.Unlock()
		return l.views.live["web"] != nil && l.views.live["web"].isWatched
	}
	l.wait("the files are watched", isWatched)
	boot, err := procfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.store.MarkGiveBack(boot); err != nil {
		t.Fatal(err)
	}
	l.wait("the files are closed", func() bool {
		is, err := view.IsRefreshed(l.ViewDir("web"))
		return !is && err == nil
	})
}

// TestRewriteDuringGiveBack: a process that has waited for its turn to write the memory writes nothing if a GiveBack has begun.
func TestRewriteDuringGiveBack(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	g := l.must(withMemory(ask("web", "0.5"), 64*mib), "wait").Grant
	l.closeLive()
	boot, err := procfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	files, err := view.OpenLiveExisting(l.ViewDir("web"), LiveParts(g))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	done := make(chan error, 1)
	if err := files.Update(func() error { // a GiveBack
		go func() { done <- l.RewriteMemory(g) }()
		time.Sleep(20 * time.Millisecond)
		if err := l.store.MarkGiveBack(boot); err != nil {
			return err
		}
		return files.WriteMachine()
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if is, err := view.ShowsMachine(l.ViewDir("web"), LiveParts(g)); !is || err != nil {
		t.Errorf("after the other process, the view shows %d: %v", l.shownTotal("web"), err)
	}
}

// TestStatWithoutMemory: an error of the memory does not stop the CPU time.
func TestStatWithoutMemory(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	a := withMemory(ask("web", "0.5"), 64*mib)
	a.View = spec.ViewFullStat
	g := l.must(a, "wait").Grant
	l.closeLive()
	l.showCPUs("web", cpuset.MustParse("0-63"))
	files, err := view.OpenLiveExisting(l.ViewDir("web"), LiveParts(g))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := files.WriteMemory(cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 8 * mib}}, view.MachineMemory{Total: 8 * mib}); err != nil {
		t.Fatal(err)
	}
	remove := kernelfs.InjectFault(func(access kernelfs.Access, path string) error {
		if access == kernelfs.WriteAccess && filepath.Base(path) == "meminfo" {
			return unix.EIO
		}
		return nil
	})
	err = l.refreshLive("web", newLiveView(g, files), false)
	remove()
	if !errors.Is(err, unix.EIO) {
		t.Errorf("error %v", err)
	}
	l.statCPUs("web")
}

// TestMovedStatAlone: without a process that refreshes views, an operation that moves or resizes a container writes its stat.
func TestMovedStatAlone(t *testing.T) {
	l := newLab(t)
	a := ask("web", "0.5")
	a.View = spec.ViewCPUStat
	g := l.must(a, "wait").Grant
	l.closeLive()
	for _, op := range []*operation{{Host: l.Host}, {Host: l.Host, resized: "web"}} {
		l.showCPUs("web", cpuset.MustParse("0-63"))
		if err := op.showLive(g, true); err != nil {
			t.Fatal(err)
		}
		l.statCPUs("web")
		if is, err := view.IsRefreshed(l.ViewDir("web")); is || err != nil {
			t.Errorf("afterwards, the files are open: %t, %v", is, err)
		}
	}
}

// TestMountedView: a container that was started without live files has none.
func TestMountedView(t *testing.T) {
	l := newLab(t)
	if v := l.mountedView("web", spec.ViewFullStat); v != spec.ViewCPU {
		t.Errorf("no files: %s", v)
	}
	if err := l.store.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := view.Write(l.store.ViewDir("web"), cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	for parts, want := range map[view.LiveParts]spec.View{{}: spec.ViewCPU, {Memory: true}: spec.ViewFull, {Stat: true}: spec.ViewCPUStat, {Memory: true, Stat: true}: spec.ViewFullStat} {
		if err := view.RemoveLive(l.store.ViewDir("web")); err != nil {
			t.Fatal(err)
		}
		files, err := view.OpenLive(l.store.ViewDir("web"), parts)
		if err != nil {
			t.Fatal(err)
		}
		files.Close()
		if v := l.mountedView("web", spec.ViewFullStat); v != want {
			t.Errorf("%+v: %s, want %s", parts, v, want)
		}
	}
	if g := (&Grant{Spec: spec.Spec{View: spec.ViewFull}}); !g.Uses(state.FeatureLiveView) {
		t.Error("the state does not name the feature")
	}
}

// TestMovedStat: an operation that moves a container wakes the process that refreshes its stat, and other operations do not.
func TestMovedStat(t *testing.T) {
	l := newLab(t)
	if err := l.store.Prepare(); err != nil {
		t.Fatal(err)
	}
	files, err := view.OpenLive(l.store.ViewDir("web"), view.LiveParts{Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	r, err := view.NewRefresher(view.RefreshOptions{Active: time.Millisecond, Idle: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var refreshes atomic.Int64
	if err := r.Add("web", files.Files(), func(bool) error { refreshes.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	runCtx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(runCtx) }()
	defer func() { cancel(); <-ended }()
	g := &Grant{Spec: spec.Spec{View: spec.ViewCPUStat}}
	g.ID = "web"
	op := &operation{Host: l.Host}
	if err := op.showLive(g, false); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if n := refreshes.Load(); n != 0 {
		t.Errorf("%d refreshes without a move", n)
	}
	if err := op.showLive(g, true); err != nil {
		t.Fatal(err)
	}
	l.wait("a refresh after the move", func() bool { return refreshes.Load() > 0 })
}

// TestOmitMountedFiles: Candor leaves files of other programs alone, and mounts the other files of the view.
func TestOmitMountedFiles(t *testing.T) {
	for path, want := range map[string]spec.View{
		"/proc/meminfo": spec.ViewCPUStat, "/proc/swaps": spec.ViewCPUStat, "/proc/stat": spec.ViewFull, "/proc/uptime": spec.ViewFullStat, "/proc": spec.ViewFullStat,
	} {
		if got := OmitMountedFiles(spec.ViewFullStat, func(at string) bool { return at == path }); got != want {
			t.Errorf("beside %s: %s, want %s", path, got, want)
		}
	}
	if got := OmitMountedFiles(spec.ViewFullStat, func(string) bool { return true }); got != spec.ViewCPU {
		t.Errorf("beside all files: %s", got)
	}
}

// TestLimited: a new container has the memory of its limit, unless a cgroup above has less.
func TestLimited(t *testing.T) {
	const none = cgroup.NoMemoryLimit
	unlimited := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: none}, Free: none, Available: none, SwapLimit: none, SwapFree: none}
	pod := cgroup.Memory{Bound: cgroup.MemoryBound{Path: "/pod", Limit: 100 * mib}, Free: 10 * mib, Available: 60 * mib, SwapLimit: 0, SwapFree: 0}
	for name, test := range map[string]struct {
		above            cgroup.Memory
		limit            int64
		total, available int64
	}{
		"no limit above":    {unlimited, 64*mib + 5, 64 * mib, 64 * mib},
		"a higher limit":    {pod, 64 * mib, 64 * mib, 60 * mib},
		"a small container": {pod, 32 * mib, 32 * mib, 32 * mib},
		"a lower limit":     {pod, 128 * mib, 100 * mib, 60 * mib},
	} {
		m := limited(test.above, cgroup.MemoryLimits{Memory: test.limit, Swap: 16 * mib})
		if m.Bound.Limit != test.total || m.Available != test.available || m.Usage != 0 || m.Free > m.Bound.Limit {
			t.Errorf("%s: %+v", name, m)
		}
		if want := min(test.above.SwapLimit, 16*mib); m.SwapLimit != want || m.SwapFree != want {
			t.Errorf("%s: swap %d, %d free", name, m.SwapLimit, m.SwapFree)
		}
	}
}
