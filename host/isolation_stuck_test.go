package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/kernelfs"
)

// refuseFiles makes writes to files of the neighbor fail while isRefused returns true.
func refuseFiles(isRefused func(file string) bool) (remove func()) {
	return kernelfs.InjectFault(func(is kernelfs.Access, path string) error {
		if is == kernelfs.WriteAccess && filepath.Base(filepath.Dir(path)) == neighbor && isRefused(filepath.Base(path)) {
			return unix.EBUSY
		}
		return nil
	})
}

func isCpuset(file string) bool { return file == "cpuset.cpus" }

func isWeight(file string) bool { return file == "cpu.shares" || file == "cpu.weight" }

// wantApart fails if the neighbor is on an exclusive CPU of the new grant.
func (l *isolationLab) wantApart(g *Grant, err error) {
	l.Helper()
	if n := l.neighborCPUs(); err == nil && n.Overlaps(&g.Exclusive) {
		l.Errorf("%s is granted %v, and %s is on %v", g.ID, g.Exclusive, neighbor, n)
	}
	if err != nil && !strings.Contains(err.Error(), neighbor+" cannot leave") {
		l.Error(err)
	}
}

// TestStuckOnInheritedCPU: a container takes over an exclusive CPU from a container that ends. It gets
// another CPU if a third container is stuck there.
func TestStuckOnInheritedCPU(t *testing.T) {
	l := newIsolationLab(t)
	web := l.must(ask("web", "1"), "wait")
	l.drift(cpuset.Of(l.usable...))
	remove := refuseFiles(isCpuset)
	defer remove()
	web.stop()
	l.orphan()
	next, err := l.start(ask("next", "1"), "wait")
	if err != nil {
		l.wantApart(nil, err)
		return
	}
	l.wantApart(next.Grant, nil)
}

// TestStuckOnHeldCPU: a pod's container that restarts does not get its held CPU back while another container
// is stuck on this CPU.
func TestStuckOnHeldCPU(t *testing.T) {
	l := newIsolationLab(t)
	e := newEngine(l.lab)
	g, err := l.Admit(ctx, e.ask(ask("web", "1"), "web1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	stop := e.run("web1", settingsOf(g))
	l.nudge()
	stop()
	if err := e.tree.Group("web1").Remove(); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	if is := e.state("web"); is != Held {
		t.Fatalf("web is %s", is)
	}
	l.drift(cpuset.Of(l.usable...))
	remove := refuseFiles(isCpuset)
	defer remove()
	l.wantApart(l.Admit(ctx, e.ask(ask("web", "1"), "web2"), 0))
}

// After the loss of the state, containers are adopted beside a stuck container, and new containers start.
func TestStuckAtAdoption(t *testing.T) {
	l := newIsolationLab(t)
	l.must(ask("web", "1"), "wait")
	if err := l.tree.Group(neighbor).SetCPUs(cpuset.Of(l.usable...), cpuset.Set{}); err != nil {
		t.Fatal(err)
	}
	remove := refuseFiles(isCpuset)
	defer remove()
	if err := os.Remove(l.store.File()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := l.start(flexible(fmt.Sprint("x", i), "0.1"), "wait"); err != nil {
			t.Errorf("a flexible container: %v", err)
		}
	}
	if err := l.Reconcile(ctx); err != nil {
		t.Errorf("repair: %v", err)
	}
}

// TestStuckAtSync: a plugin synchronizes with a runtime while a container runs on the CPU of a stuck
// container.
func TestStuckAtSync(t *testing.T) {
	l := newIsolationLab(t)
	e := newEngine(l.lab)
	a := e.ask(ask("pod", "1"), "pod1")
	e.run("pod1", settingsOf(&Grant{Grant: hybrid.Grant{Request: a.Request, CPUs: cpuset.Of(l.usable[0]), Quota: 1000, Weight: 1000}, Spec: a.Spec}))
	l.drift(cpuset.Of(l.usable...))
	remove := refuseFiles(isCpuset)
	defer remove()
	for range 2 {
		if err := l.Sync(ctx, []Allocation{a}, []string{"box1"}); err != nil {
			t.Errorf("synchronize: %v", err)
		}
	}
}

// A fraction may be on a CPU of a stuck container; an exclusive CPU may not.
func TestStuckBesideFraction(t *testing.T) {
	for _, policy := range []hybrid.Policy{hybrid.Strict, hybrid.BestEffort} {
		l := newIsolationLab(t)
		l.drift(cpuset.Of(l.usable[0]))
		remove := refuseFiles(isCpuset)
		a := ask("web", "1.5")
		a.Policy = policy
		web, err := l.start(a, "wait")
		if err != nil {
			t.Errorf("%v: %v", policy, err)
		} else {
			l.wantApart(web.Grant, nil)
		}
		remove()
	}
}

// TestStuckOnHint: a container is stuck on the hinted CPU. The new container gets another CPU, and its hint
// is reported as missed.
func TestStuckOnHint(t *testing.T) {
	l := newIsolationLab(t)
	e := newEngine(l.lab)
	var last Report
	l.Host.listener = func(r Report) { last = r }
	l.drift(cpuset.Of(l.usable[0]))
	remove := refuseFiles(isCpuset)
	defer remove()
	a := e.ask(ask("web", "1"), "web1")
	a.Hint = &hybrid.Hint{Exclusive: cpuset.Of(l.usable[0])}
	g, err := l.Admit(ctx, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.wantApart(g, nil)
	if last.Hint != HintMissed {
		t.Errorf("on %v, the hint is %q", g.CPUs, last.Hint)
	}
}

// TestStuckInUndo: an undo does not return an exclusive CPU to a container if another container is stuck
// there.
func TestStuckInUndo(t *testing.T) {
	l := newIsolationLab(t)
	web := l.must(ask("web", "1"), "wait")
	own := web.CPUs
	other := cpuset.Of(l.usable...).Minus(own)
	remove := refuseFiles(isCpuset)
	defer remove()
	op, err := l.newOperation(scope{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	op.report = new(Report)
	op.subject, op.isUndoing = "web", true
	for _, g := range op.loaded.Grants {
		if g.ID == "web" {
			g.Exclusive = own.Union(other) // as before a resize that failed
		}
	}
	w, n := op.groups["web"].settings, op.groups[neighbor].settings
	w.CPUs, n.CPUs = own.Union(other), own
	if err := op.settle([]target{{neighbor, n}, {"web", w}}, own.Union(other)); err != nil {
		t.Error(err)
	}
	has, err := l.tree.Group("web").CPUs()
	if n := l.neighborCPUs(); err != nil || n.Overlaps(&has) {
		t.Errorf("web is on %v, %s on %v (%v)", has, neighbor, n, err)
	}
}

// TestDegradedThroughUndo: operations that fail do not clear the record of a refused setting. Candor logs the
// setting once, and the pause between its attempts grows.
func TestDegradedThroughUndo(t *testing.T) {
	l := newIsolationLab(t)
	l.drift(cpuset.Of(l.usable...))
	remove := kernelfs.InjectFault(func(is kernelfs.Access, path string) error {
		name, file := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		if is == kernelfs.WriteAccess && (name == neighbor && isWeight(file) || name == "web" && file == "online") {
			return unix.EIO
		}
		return nil
	})
	defer remove()
	for range 5 {
		if _, err := l.start(ask("web", "0.5"), "wait"); err == nil {
			t.Fatal("not refused")
		}
	}
	log := l.log.String()
	if degraded, restored := strings.Count(log, "msg=\"degraded"), strings.Count(log, "no longer degraded"); degraded != 1 || restored != 0 {
		t.Errorf("%d lines of a refusal and %d of its end:\n%s", degraded, restored, log)
	}
}

// TestDegradedByParts: of two refused settings, the kernel accepts one setting again. Only the other setting
// stays degraded.
func TestDegradedByParts(t *testing.T) {
	l := newIsolationLab(t)
	l.must(ask("web", "1"), "wait")
	l.drift(cpuset.Of(l.usable...))
	refusesCPUs := true
	remove := refuseFiles(func(file string) bool { return isWeight(file) || isCpuset(file) && refusesCPUs })
	defer remove()
	l.nudge()
	refusesCPUs = false
	l.nudge() // the neighbor is on an exclusive CPU: no pause
	for _, d := range l.Degraded() {
		if d.Setting != SettingWeight {
			t.Errorf("%s is degraded; %s is on %v", d.Setting, neighbor, l.neighborCPUs())
		}
	}
	if len(l.Degraded()) != 1 {
		t.Errorf("degraded: %+v", l.Degraded())
	}
}

// A group that cannot be removed delays no operation.
func TestUnremovableGroup(t *testing.T) {
	l := &isolationLab{lab: newLab(t)}
	l.usable = l.needCPUs(2)
	ended := l.must(flexible(neighbor, "0.5"), "wait")
	ended.stop()
	l.orphan()
	remove := kernelfs.InjectFault(func(is kernelfs.Access, path string) error {
		if is == kernelfs.RemoveAccess && filepath.Base(path) == neighbor {
			return unix.EBUSY
		}
		return nil
	})
	defer remove()
	for i := range 2 {
		start := time.Now()
		if _, err := l.start(flexible(fmt.Sprint("x", i), "0.1"), "wait"); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 5*time.Second { // the removal alone would take 10 s
			t.Errorf("took %v", took)
		}
	}
}

// TestReleaseOfFrozen: a container whose processes cannot be killed, because a nested cgroup is frozen,
// delays no other operation.
func TestReleaseOfFrozen(t *testing.T) {
	l := newIsolationLab(t)
	if l.tree.Version() == 2 {
		t.Skip("cgroup.kill reaches frozen groups")
	}
	dir := filepath.Dir(l.groupFile("freezer.state"))
	pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	nested := filepath.Join(dir, "nested")
	if err := os.Mkdir(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		l.write(filepath.Join(nested, "cgroup.procs"), pid)
	}
	l.write(filepath.Join(nested, "freezer.state"), "FROZEN")
	released := make(chan error, 1)
	go func() { released <- l.Release(ctx, neighbor, true) }()
	first, _, _ := strings.Cut(string(pids), "\n")
	waitFor(t, "a pending SIGKILL", func() bool { return anyFile("/proc/"+first+"/status", "ShdPnd:\t0000000000000100") })
	start := time.Now()
	l.nudge()
	if took := time.Since(start); took > 5*time.Second { // the kill takes up to 31 s
		t.Errorf("another operation took %v", took)
	}
	l.write(filepath.Join(nested, "freezer.state"), "THAWED")
	if err := <-released; err != nil {
		t.Error(err)
	}
}

// TestManyNestedGroups: any number of nested cgroups delays an operation for another container only for a
// bounded time.
func TestManyNestedGroups(t *testing.T) {
	if isSlow() {
		t.Skip("creates 5,000 groups")
	}
	l := newIsolationLab(t)
	dir := filepath.Dir(l.groupFile("cpuset.cpus"))
	var settings [2][]byte
	files := [2]string{"cpuset.mems", "cpuset.cpus"}
	for i, file := range files {
		var err error
		if settings[i], err = os.ReadFile(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	const groups = 5000
	for i := range groups {
		nested := fmt.Sprintf("%s/n%d", dir, i)
		if err := os.Mkdir(nested, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(nested)
		if l.tree.Version() == 1 {
			l.write(nested+"/"+files[0], string(settings[0]))
			l.write(nested+"/"+files[1], string(settings[1]))
		}
	}
	start := time.Now()
	web, err := l.start(ask("web", "1"), "wait")
	took := time.Since(start)
	if err == nil {
		l.wantApart(web.Grant, nil)
	} else {
		l.wantApart(nil, err)
	}
	if took > 3*time.Second { // a single walk through the groups takes 4 s
		t.Errorf("took %v", took)
	}
}

// TestLateLease: a lease that ends late does not replace files that the container got in the meantime.
func TestLateLease(t *testing.T) {
	l := newIsolationLab(t)
	l.Host.views.isAll = true
	l.nudge()
	l.views.close(neighbor)
	fd, err := unix.Open(filepath.Join(l.store.ViewDir(neighbor), "cpuinfo"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.views.keepOpen(l.store, neighbor)
	waitFor(t, "a goroutine that waits for the lease", func() bool { return anyFile("/proc/self/task/*/syscall", fmt.Sprint(unix.SYS_OPENAT, " ")) })
	g := &Grant{}
	g.ID, g.CPUs = neighbor, cpuset.Of(l.usable[0])
	if err := l.views.renew(l.store, g, true); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	waitFor(t, "the end of the lease", func() bool {
		l.views.mu.Lock()
		defer l.views.mu.Unlock()
		if !l.views.files[neighbor].IsCurrent() {
			t.Fatal("the open files belong to the former view")
		}
		return l.views.waiting == ""
	})
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", condition)
		}
	}
}

// anyFile reports whether a file of a pattern contains a text.
func anyFile(pattern, text string) bool {
	files, _ := filepath.Glob(pattern)
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil && strings.Contains(string(content), text) {
			return true
		}
	}
	return false
}
