package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// isolationErrnos are the errors with which the files of the neighbor refuse an access.
var isolationErrnos = []unix.Errno{unix.EINVAL, unix.EBUSY, unix.EAGAIN, unix.ENOENT, unix.EACCES, unix.EIO, unix.ENOSPC}

// isolationFiles returns the files of a container that an operation for another container may write.
func (l *lab) isolationFiles() []string {
	files := []string{"cpuset.cpus", "cpuset.mems", "online", "cpuinfo"}
	if l.tree.Version() == 2 {
		return append(files, "cpu.weight", "cpu.max", "cpu.max.burst")
	}
	return append(files, "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us")
}

// An isolationLab has a flexible container with all settings, whose files refuse accesses.
type isolationLab struct {
	*lab
	usable []int
	hits   int
}

const neighbor = "neighbor"

func newIsolationLab(t *testing.T) *isolationLab {
	l := &isolationLab{lab: newLab(t)}
	l.usable = l.needCPUs(2)
	a := flexible(neighbor, "0.5")
	a.View, a.Burst = spec.ViewFull, spec.Burst{Time: 10 * time.Millisecond}
	l.must(a, "wait")
	return l
}

// drift gives the neighbor settings that differ from its grant, so that the next operation writes each of
// them.
func (l *isolationLab) drift(cpus cpuset.Set) {
	l.Helper()
	err := l.tree.Group(neighbor).Apply(cgroup.Settings{CPUs: cpus, Quota: 70 * time.Millisecond, Period: 50 * time.Millisecond, Burst: 5 * time.Millisecond, Weight: 3000})
	if err == nil {
		err = view.Write(l.store.ViewDir(neighbor), cpus)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.Host.degraded = degradedSettings{}
}

// inject makes the accesses to a file of the neighbor fail.
func (l *isolationLab) inject(access kernelfs.Access, file string, errno unix.Errno) (remove func()) {
	l.hits = 0
	return kernelfs.InjectFault(func(is kernelfs.Access, path string) error {
		if is != access || filepath.Base(path) != file || filepath.Base(filepath.Dir(path)) != neighbor {
			return nil
		}
		l.hits++
		return errno
	})
}

// checkSubject fails unless a sensitive container has its grant and no other container is on its exclusive
// CPUs.
func (l *isolationLab) checkSubject(name string) {
	l.Helper()
	s, err := l.Snapshot()
	if err != nil {
		l.Fatal(err)
	}
	g, err := s.Grant(name)
	if err != nil {
		l.Fatal(err)
	}
	has, err := l.tree.Group(name).Settings()
	if err != nil {
		l.Fatal(err)
	}
	other := l.neighborCPUs()
	if has.CPUs != g.CPUs || g.CPUs.Count() != g.Limit.CPUs() || has.Quota != quotaOf(g) {
		l.Errorf("%s: granted %v, quota %v; the kernel has %v, %v", name, g.CPUs, quotaOf(g), has.CPUs, has.Quota)
	}
	if other.Overlaps(&g.Exclusive) {
		l.Errorf("%s is on %v, exclusive CPUs %v of %s", neighbor, other, g.Exclusive, name)
	}
	if shown, err := l.store.ShownCPUs(name); err != nil || shown != g.CPUs {
		l.Errorf("%s: has %v, is shown %v (%v)", name, g.CPUs, shown, err)
	}
}

// neighborCPUs reads the CPUs of the neighbor without the injected faults.
func (l *isolationLab) neighborCPUs() cpuset.Set {
	l.Helper()
	text, err := os.ReadFile(l.groupFile("cpuset.cpus"))
	if err != nil {
		l.Fatal(err)
	}
	return cpuset.MustParse(strings.TrimSpace(string(text)))
}

// checkReported fails unless the neighbor is reported as degraded.
func (l *isolationLab) checkReported() {
	l.Helper()
	if !slices.ContainsFunc(l.Degraded(), func(d Degraded) bool { return d.Container == neighbor }) {
		l.Errorf("%d accesses refused, and %s is not degraded: %+v", l.hits, neighbor, l.Degraded())
	}
}

// TestIsolation refuses each access to each file of a container while another container is started, resized
// and released.
func TestIsolation(t *testing.T) {
	l := newIsolationLab(t)
	all := cpuset.Of(l.usable...)
	errnos := isolationErrnos
	if isSlow() {
		errnos = []unix.Errno{unix.EBUSY}
	}
	for _, access := range []kernelfs.Access{kernelfs.WriteAccess, kernelfs.ReadAccess} {
		for _, file := range l.isolationFiles() {
			for _, errno := range errnos {
				for _, cpus := range []cpuset.Set{all, cpuset.Of(l.usable[0])} {
					name := fmt.Sprintf("%s %s %s on %v", access, file, unix.ErrnoName(errno), cpus)
					// A view that cannot be read is written again; Linux before 5.14 has no burst to read.
					isRepaired := access == kernelfs.ReadAccess && (file == "online" || file == "cpu.cfs_burst_us" || file == "cpu.max.burst")
					l.testIsolation(name, cpus, !isRepaired, func() func() { return l.inject(access, file, errno) })
				}
			}
		}
	}
}

func (l *isolationLab) testIsolation(name string, cpus cpuset.Set, isRefused bool, inject func() func()) {
	l.TB.(*testing.T).Run(name, func(t *testing.T) {
		outer := l.TB
		l.TB = t
		defer func() { l.TB = outer }()
		l.drift(cpus)
		remove := inject()
		defer func() { remove(); l.orphan(); l.nudge() }()
		web, err := l.start(ask("web", "0.5"), "wait") // needs no CPU of the neighbor exclusively
		if err != nil {
			t.Fatalf("a container without exclusive CPUs: %v", err)
		}
		l.checkSubject("web")
		if isRefused && l.hits > 0 {
			l.checkReported()
		}
		l.testResize("web", 1000)
		if _, _, err := l.Resize(ctx, "web", 500, 0); err != nil {
			t.Errorf("shrink: %v", err)
		}
		l.checkSubject("web")
		web.stop()
		l.orphan()
		if err := l.Release(ctx, "web", true); err != nil {
			t.Errorf("release: %v", err)
		}
		remove()
		l.Host.degraded = degradedSettings{}
		l.nudge()
		l.check(neighbor)
		if d := l.Degraded(); len(d) != 0 {
			t.Errorf("after the fault: %+v", d)
		}
	})
}

// testResize resizes a container to a whole CPU. The resize may be refused only if the neighbor cannot leave
// its CPUs and no other CPU fits.
func (l *isolationLab) testResize(name string, limit hybrid.Milli) {
	l.Helper()
	if _, _, err := l.Resize(ctx, name, limit, 0); err != nil {
		stuck := new(stuckError)
		if !errors.As(err, &stuck) || stuck.name != neighbor || strings.Contains(err.Error(), "\n") {
			l.Errorf("resize: %v", err)
		}
		if has := l.neighborCPUs(); has.Count() < len(l.usable)-1 {
			l.Errorf("refused, and %s is on %v only", neighbor, has)
		}
		return
	}
	l.checkSubject(name)
}

// isSlow reports whether each case takes ten times as long: under the race detector, or on emulated CPUs.
func isSlow() bool { return testing.Short() || os.Getenv("CANDOR_IN_GUEST") != "" }

// TestStuckElsewhere starts a container whose first choice is a CPU that another container cannot leave.
func TestStuckElsewhere(t *testing.T) {
	l := newIsolationLab(t)
	l.drift(cpuset.Of(l.usable[0]))
	remove := l.inject(kernelfs.WriteAccess, "cpuset.cpus", unix.EBUSY)
	defer remove()
	web := l.must(ask("web", "1"), "wait")
	if web.CPUs.Contains(l.usable[0]) {
		t.Errorf("on %v", web.CPUs)
	}
	l.checkSubject("web")
	remove()
	l.Host.degraded = degradedSettings{}
	l.nudge()
	l.check(neighbor, "web")
}

// TestStuckAtResize resizes a running container to a whole CPU. Its first choice is a CPU that another
// container cannot leave.
func TestStuckAtResize(t *testing.T) {
	l := newIsolationLab(t)
	web := l.must(ask("web", "0.5"), "wait")
	l.drift(web.CPUs)
	remove := l.inject(kernelfs.WriteAccess, "cpuset.cpus", unix.EBUSY)
	defer remove()
	_, after, err := l.Resize(ctx, "web", 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if after.CPUs == web.CPUs || after.CPUs.Count() != 1 {
		t.Errorf("%s is on %v; web had %v, and has %v", neighbor, l.neighborCPUs(), web.CPUs, after.CPUs)
	}
	l.checkSubject("web")
}

// TestRetryBackOff: Candor retries a refused setting after growing pauses, and logs it once.
func TestRetryBackOff(t *testing.T) {
	l := newIsolationLab(t)
	l.drift(cpuset.Of(l.usable...))
	weight := "cpu.shares"
	if l.tree.Version() == 2 {
		weight = "cpu.weight"
	}
	remove := l.inject(kernelfs.WriteAccess, weight, unix.EINVAL)
	defer remove()
	l.nudge()
	tries := l.hits
	for range 5 {
		l.nudge()
	}
	if tries == 0 || l.hits != tries {
		t.Errorf("%d writes at first, %d after five operations", tries, l.hits)
	}
	for range 3 { // the pause is over
		for _, r := range l.Host.degraded.all[neighbor] {
			r.retry = time.Time{}
		}
		l.nudge()
	}
	if l.hits == tries {
		t.Error("not written again")
	}
	if n := strings.Count(l.log.String(), "msg=\"degraded"); n != 1 {
		t.Errorf("%d log lines:\n%s", n, l.log)
	}
	r := l.Host.degraded.all[neighbor][0]
	if pause := time.Until(r.retry); pause < 4*time.Second || pause > maxRetry {
		t.Errorf("after %d refusals the pause is %v", r.failures, pause)
	}
}

// TestRealRefusals makes this kernel refuse a setting of the neighbor. No operation for another container is
// refused because of that.
func TestRealRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		refuse func(*isolationLab) (undo func())
		want   Setting // empty if the kernel accepts all settings
	}{
		"read lease on online":     {refuseByLease(unix.F_RDLCK, "online"), SettingView},
		"read lease on cpuinfo":    {refuseByLease(unix.F_RDLCK, "cpuinfo"), SettingView},
		"write lease on online":    {refuseByLease(unix.F_WRLCK, "online"), SettingView},
		"write lease on cpuinfo":   {refuseByLease(unix.F_WRLCK, "cpuinfo"), SettingView},
		"idle group has no weight": {refuseByIdle, SettingWeight},
		"view on a full disk":      {refuseByFullDisk, SettingView},
		"immutable view":           {refuseByImmutableFile, SettingView},
		"frozen group":             {refuseByFreezer, ""},
		"limit of a nested group":  {refuseByNestedLimit, ""},
		"nested groups":            {refuseByNestedGroups, ""},
		"half a group":             {refuseByHalfGroup, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newIsolationLab(t)
			undo := test.refuse(l)
			defer undo()
			start := time.Now()
			web, err := l.start(ask("web", "1"), "wait")
			if err != nil {
				t.Fatal(err)
			}
			l.checkSubject("web")
			if isReported := slices.ContainsFunc(l.Degraded(), func(d Degraded) bool { return d.Setting == test.want }); test.want != "" && !isReported {
				t.Errorf("degraded: %+v; want %s", l.Degraded(), test.want)
			}
			if _, _, err := l.Resize(ctx, "web", 500, 0); err != nil {
				t.Errorf("resize: %v", err)
			}
			l.checkSubject("web")
			web.stop()
			l.orphan()
			if err := l.Release(ctx, "web", true); err != nil {
				t.Errorf("release: %v", err)
			}
			if took := time.Since(start); took > 20*time.Second { // a broken lease takes 45 s
				t.Errorf("took %v", took)
			}
		})
	}
}

func refuseByLease(kind int, file string) func(*isolationLab) func() {
	return func(l *isolationLab) func() {
		l.nudge()
		l.views.close(neighbor) // as if another process had started it and ended
		fd, err := unix.Open(filepath.Join(l.store.ViewDir(neighbor), file), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			l.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind); err != nil {
			l.Fatal(err)
		}
		return func() { unix.Close(fd) }
	}
}

// groupFile returns the path of a file of the neighbor's group, or skips the test.
func (l *isolationLab) groupFile(name string) string {
	l.Helper()
	matches, _ := filepath.Glob("/sys/fs/cgroup/*" + l.parent + "/" + neighbor + "/" + name)
	if l.tree.Version() == 2 {
		matches, _ = filepath.Glob("/sys/fs/cgroup" + l.parent + "/" + neighbor + "/" + name)
	}
	if len(matches) == 0 {
		l.Skipf("this kernel has no %s", name)
	}
	return matches[0]
}

func (l *isolationLab) write(path, value string) {
	l.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		l.Fatal(err)
	}
}

// refuseByIdle makes the kernel refuse a weight: an idle cgroup has no weight.
func refuseByIdle(l *isolationLab) func() {
	file := l.groupFile("cpu.idle")
	l.drift(cpuset.Of(l.usable...))
	l.write(file, "1")
	return func() {
		if !slices.ContainsFunc(l.Degraded(), func(d Degraded) bool { return d.Setting == SettingWeight }) {
			l.Errorf("degraded: %+v", l.Degraded())
		}
		l.write(file, "0")
	}
}

func refuseByFreezer(l *isolationLab) func() {
	if l.tree.Version() == 2 {
		file := l.groupFile("cgroup.freeze")
		l.write(file, "1")
		return func() { l.write(file, "0") }
	}
	file := l.groupFile("freezer.state")
	l.write(file, "FROZEN")
	return func() { l.write(file, "THAWED") }
}

// refuseByFullDisk makes a rewrite of the view fail if the file must grow.
func refuseByFullDisk(l *isolationLab) func() {
	small := smallDisk(l.TB.(*testing.T), "size=4k")
	target := l.store.ViewDir(neighbor)
	l.views.close(neighbor)
	if err := view.Remove(target); err != nil {
		l.Fatal(err)
	}
	if err := os.Mkdir(target, 0o755); err != nil {
		l.Fatal(err)
	}
	if err := unix.Mount(small, target, "", unix.MS_BIND, ""); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(small, "fill"), make([]byte, 4096), 0o600); err != nil {
		l.Fatal(err)
	}
	return func() { unix.Unmount(target, unix.MNT_DETACH) }
}

// refuseByNestedLimit creates a cgroup in the neighbor's cgroup with a limit above the neighbor's next limit.
func refuseByNestedLimit(l *isolationLab) func() {
	l.drift(cpuset.Of(l.usable...))
	dir := filepath.Dir(l.groupFile("cpu.stat"))
	nested := filepath.Join(dir, "nested")
	if err := os.Mkdir(nested, 0o755); err != nil {
		l.Fatal(err)
	}
	if file := filepath.Join(nested, "cpu.cfs_quota_us"); l.tree.Version() == 1 {
		l.write(file, "100000")
	}
	return func() { os.Remove(nested) }
}

func refuseByImmutableFile(l *isolationLab) func() {
	l.views.close(neighbor)
	f, err := os.Open(filepath.Join(l.store.ViewDir(neighbor), "online"))
	if err != nil {
		l.Fatal(err)
	}
	defer f.Close()
	set := func(flags int) error {
		f, err := os.Open(filepath.Join(l.store.ViewDir(neighbor), "online"))
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := set(immutable); err != nil {
		l.Skipf("this file system has no immutable files: %v", err)
	}
	return func() {
		if err := set(0); err != nil {
			l.Error(err)
		}
	}
}

// refuseByNestedGroups creates cgroups with all of the neighbor's CPUs in its cgroup.
func refuseByNestedGroups(l *isolationLab) func() {
	dir := filepath.Dir(l.groupFile("cpuset.cpus"))
	var made []string
	for nested := dir; len(made) < 5; {
		nested = filepath.Join(nested, "nested")
		if err := os.Mkdir(nested, 0o755); err != nil {
			l.Fatal(err)
		}
		made = append(made, nested)
		if l.tree.Version() == 1 {
			for _, file := range []string{"cpuset.mems", "cpuset.cpus"} {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					l.Fatal(err)
				}
				l.write(filepath.Join(nested, file), string(text))
			}
		}
	}
	return func() {
		for _, nested := range slices.Backward(made) {
			os.Remove(nested)
		}
	}
}

// refuseByHalfGroup removes the neighbor's directory in a single hierarchy, as an engine that is killed
// during the removal.
func refuseByHalfGroup(l *isolationLab) func() {
	if l.tree.Version() == 2 {
		l.Skip("a group of cgroup v2 is one folder")
	}
	dir := filepath.Dir(l.groupFile("cpu.shares"))
	pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		l.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		l.write(filepath.Join(filepath.Dir(dir), "cgroup.procs"), pid)
	}
	if err := os.Remove(dir); err != nil {
		l.Skip(err) // cpu and cpuacct share a hierarchy
	}
	return func() {}
}
