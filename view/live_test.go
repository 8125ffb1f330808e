package view

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

var bothParts = LiveParts{Memory: true, Stat: true}

// openLiveView opens the live files of a view.
func openLiveView(t testing.TB, dir string) *LiveFiles {
	t.Helper()
	l, err := OpenLive(dir, bothParts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// limited is the memory of a container with a limit of 64 MiB.
var limited = cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 64 * mib}, Free: 60 * mib, Available: 62 * mib, Usage: 4 * mib}

// TestLiveFiles: a single process at a time has the live files of a view open.
func TestLiveFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	if _, err := OpenLiveExisting(dir, bothParts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no view: %v", err)
	}
	if is, err := IsRefreshed(dir); is || err != nil {
		t.Errorf("no view: %v, %v", is, err)
	}
	l := openLiveView(t, dir)
	if err := l.WriteMemory(limited, MachineMemory{Total: gib}); err != nil {
		t.Fatal(err)
	}
	if total, err := ReadMemTotal(dir); total != 64*mib || err != nil {
		t.Errorf("MemTotal %d, %v", total, err)
	}
	if is, err := IsRefreshed(dir); !is || err != nil {
		t.Errorf("an open view: %v, %v", is, err)
	}
	for range 2 {
		if _, err := OpenLive(dir, bothParts); !errors.Is(err, ErrRefreshed) {
			t.Errorf("twice: %v", err)
		}
	}
	if parts := ReadParts(dir); parts != bothParts || l.Parts() != parts || len(l.Files()) != 3 || !l.IsCurrent() {
		t.Errorf("%+v, %d files", parts, len(l.Files()))
	}
	for name, mode := range map[string]os.FileMode{meminfoName: 0o644, swapsName: 0o644, statName: 0o644, liveName: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := RemoveLive(dir); err != nil || l.IsCurrent() || ReadParts(dir) != (LiveParts{}) {
		t.Errorf("removed: %v, current %t", err, l.IsCurrent())
	}
	if is, err := IsRefreshed(dir); is || err != nil {
		t.Errorf("after the removal: %v, %v", is, err)
	}
	next := openLiveView(t, dir) // of the next container, while the files of the former one are open
	next.Close()
	if _, err := OpenLiveExisting(dir, bothParts); err != nil {
		t.Errorf("after the end of the other process: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("the view remains")
	}
}

// TestLiveBrieflyOpen: a container starts also if another process has the files open for a moment.
func TestLiveBrieflyOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	other := openLiveView(t, dir)
	closed := make(chan bool)
	go func() {
		time.Sleep(updateTurn / 10)
		other.Close()
		close(closed)
	}()
	l, err := OpenLive(dir, bothParts)
	if <-closed; err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// statSums returns the numbers of the lines in the stat file of a view, by name.
func statSums(t *testing.T, dir string) map[string]StatCounter {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, statName))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]StatCounter{}
	for line := range bytes.Lines(text) {
		if name, c, ok := parseStatLine(string(line)); ok {
			all[name] = c
		}
	}
	return all
}

// TestLiveStat: the counters in stat do not decrease, also if the process that writes them is replaced, with or without a clean
// end, while the CPUs of the container change.
func TestLiveStat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	now, user := time.Hour, time.Minute
	last := map[string]StatCounter{}
	for i, cpus := range []string{"0-1", "0-1", "1", "1", "0-3", "0-3", "2-3", "0-1", "0-1"} {
		set := cpuset.MustParse(cpus)
		for range 3 {
			now, user = now+time.Second, user+time.Duration(set.Count())*400*time.Millisecond
			if err := l.WriteStat(StatSample{Time: now, CPUs: set, User: user, System: user / 4}); err != nil {
				t.Fatal(err)
			}
			next := statSums(t, dir)
			if len(next) != set.Count()+1 {
				t.Errorf("lines %v for CPUs %v", next, set)
			}
			for name, c := range next {
				if before := last[name]; c.User < before.User || c.System < before.System || c.Idle < before.Idle {
					t.Errorf("step %d: %q decreases from %+v to %+v", i, name, before, c)
				}
				last[name] = c
			}
		}
		if shown, err := ReadStatCPUs(dir); err != nil || shown != set {
			t.Errorf("stat shows CPUs %v, %v; want %v", shown, err, set)
		}
		if i%2 == 0 {
			l.Close()
		} else { // killed
			l.lock.Close()
		}
		l = openLiveView(t, dir)
		now += time.Minute
	}
	all := last[""]
	if busy := all.User + all.System; busy < 10*time.Second || busy > 30*time.Second || all.Idle < 5*time.Second {
		t.Errorf("after 27 s on 1 to 4 CPUs: %+v", all)
	}
}

// TestConcurrentStatReaders: while the counters change, every line that a reader gets parses, and no counter decreases. A read
// can mix two versions; the test logs how often.
func TestConcurrentStatReaders(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("takes long on emulated CPUs, and measures the memory of real CPUs")
	}
	dir := filepath.Join(t.TempDir(), "web")
	if stat, err := os.Stat("/dev/shm"); err == nil && stat.IsDir() {
		dir = fmt.Sprintf("/dev/shm/candor-view-stat-%d", os.Getpid()) // a tmpfs like /run
	}
	l := openLiveView(t, dir)
	defer Remove(dir)
	s := StatSample{Time: time.Hour, CPUs: cpuset.MustParse("0-15")}
	// Each step adds as many ticks to all counters of a line, so a read that mixes two versions has different counters.
	const step = 3 * 7 * statTick
	write := func() {
		s.Time, s.User, s.System = s.Time+3*step, s.User+16*step, s.System+16*step
		if err := l.WriteStat(s); err != nil {
			t.Error(err)
		}
	}
	write()
	var stop atomic.Bool
	var readers sync.WaitGroup
	var reads, mixed atomic.Int64
	for range 2 {
		readers.Go(func() {
			last := map[string][]int64{}
			for !stop.Load() && !t.Failed() {
				text, err := os.ReadFile(filepath.Join(dir, statName))
				lines, parseErr := parseStatLines(text)
				if err != nil || parseErr != nil || len(lines) != 1+16+7 {
					t.Errorf("stat reads as %q (%v, %v)", text, err, parseErr)
					return
				}
				isMixed := false
				for _, line := range lines[:1+16] {
					for i, n := range last[line.name] {
						if line.numbers[i] < n {
							t.Errorf("%s: number %d decreases from %d to %d", line.name, i, n, line.numbers[i])
						}
					}
					last[line.name] = line.numbers
					isMixed = isMixed || line.numbers[0] != lines[1].numbers[0] && line.name != "cpu"
				}
				if isMixed {
					mixed.Add(1)
				}
				reads.Add(1)
			}
		})
	}
	writes := 0
	for ; (writes < 2000 || reads.Load() < 2000) && !t.Failed(); writes++ {
		write()
	}
	stop.Store(true)
	readers.Wait()
	t.Logf("%d reads during %d rewrites; %d mixed two versions", reads.Load(), writes, mixed.Load())
}

// TestLiveBrokenCounters: stored counters that cannot be parsed cost the counters of the CPUs that have left the container only.
func TestLiveBrokenCounters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	sample := StatSample{Time: time.Hour, CPUs: cpuset.Of(0, 1)}
	for range 10 {
		sample.Time, sample.User = sample.Time+time.Second, sample.User+time.Second
		if err := l.WriteStat(sample); err != nil {
			t.Fatal(err)
		}
	}
	before := statSums(t, dir)
	l.Close()
	for _, text := range []string{"", "{", `{"cpus":{"0":{"user":`, strings.Repeat("x", 10000)} {
		if err := os.WriteFile(filepath.Join(dir, liveName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l := openLiveView(t, dir)
		if err := l.WriteStat(sample); err != nil {
			t.Fatal(err)
		}
		if after := statSums(t, dir); after[""] != before[""] || after["0"] != before["0"] {
			t.Errorf("%.20q: %+v, before %+v", text, after, before)
		}
		l.Close()
	}
}

// TestLiveWriteMachine: the files show the machine.
func TestLiveWriteMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	if err := l.WriteMemory(limited, MachineMemory{Total: gib}); err != nil {
		t.Fatal(err)
	}
	if err := l.WriteStat(StatSample{Time: time.Hour, CPUs: cpuset.Of(0)}); err != nil {
		t.Fatal(err)
	}
	if err := l.WriteMachine(); err != nil {
		t.Fatal(err)
	}
	machine, err := ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	if total, err := ReadMemTotal(dir); err != nil || total/1024 != machine.Total/1024 {
		t.Errorf("MemTotal %d, %v; want %d", total, err, machine.Total)
	}
	kernel, err := os.ReadFile(hostStat)
	if err != nil {
		t.Fatal(err)
	}
	want, err := parseStat(kernel)
	if err != nil {
		t.Fatal(err)
	}
	if cpus, err := ReadStatCPUs(dir); err != nil || cpus != want {
		t.Errorf("stat shows CPUs %v, %v; want %v", cpus, err, want)
	}
}

// allCPUs returns the CPUs of the kernel's stat.
func allCPUs(t *testing.T) cpuset.Set {
	t.Helper()
	text, err := os.ReadFile(hostStat)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := parseStat(text)
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// TestShowsMachine: only the files of a complete WriteMachine count as the machine's, also if the container has the machine's CPUs and
// as much memory as the machine, and if a process was killed between or within the writes.
func TestShowsMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	machine, err := ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	m := limited
	m.Bound.Limit = machine.Total
	if err := l.WriteMemory(m, machine); err != nil {
		t.Fatal(err)
	}
	if err := l.WriteStat(StatSample{Time: time.Hour, CPUs: allCPUs(t)}); err != nil {
		t.Fatal(err)
	}
	is := func(when string, parts LiveParts, want bool) {
		t.Helper()
		if got, err := ShowsMachine(dir, parts); got != want || err != nil {
			t.Errorf("%s: %+v: %t, %v", when, parts, got, err)
		}
	}
	memory, stat := LiveParts{Memory: true}, LiveParts{Stat: true}
	is("of the container", memory, false)
	is("of the container", stat, false)
	former, err := os.ReadFile(filepath.Join(dir, statName))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{statName, meminfoName} {
		if err := l.WriteMemory(m, machine); err != nil {
			t.Fatal(err)
		}
		remove := kernelfs.InjectFault(func(access kernelfs.Access, path string) error {
			if access == kernelfs.WriteAccess && path == filepath.Join(dir, name) {
				return unix.EIO
			}
			return nil
		})
		err := l.WriteMachine()
		remove()
		if !errors.Is(err, unix.EIO) {
			t.Fatalf("%s: %v", name, err)
		}
		is("without "+name, bothParts, false)
	}
	if err := l.WriteMachine(); err != nil {
		t.Fatal(err)
	}
	is("of the machine", bothParts, true)
	whole, err := os.ReadFile(filepath.Join(dir, statName))
	if err != nil {
		t.Fatal(err)
	}
	old := append(bytes.TrimSuffix(former, []byte("\n")), bytes.Repeat([]byte(" "), max(len(whole)-len(former), 0))...)
	softirq := bytes.Index(whole, []byte("\nsoftirq "))
	for written := 0; written < softirq; written += 1 + softirq/50 {
		text := append(append([]byte{}, whole[:written]...), append(old, '\n')[written:]...)
		if err := os.WriteFile(filepath.Join(dir, statName), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _ := ShowsMachine(dir, stat); got {
			t.Errorf("after %d of %d bytes, stat counts as the machine's", written, len(whole))
		}
	}
}

// TestLiveMachineCounters: a container whose stat showed the machine continues with its own counters.
func TestLiveMachineCounters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	s := StatSample{Time: time.Hour, CPUs: cpuset.Of(0)}
	write := func() StatCounter {
		t.Helper()
		s.Time, s.User = s.Time+time.Second, s.User+time.Second/2
		if err := l.WriteStat(s); err != nil {
			t.Fatal(err)
		}
		return statSums(t, dir)[""]
	}
	write()
	before := write()
	l.Close()
	l = openLiveView(t, dir)
	if err := l.WriteMachine(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = openLiveView(t, dir)
	if after := write(); after.User < before.User || after.User > before.User+time.Second || after.Idle > before.Idle+2*time.Second {
		t.Errorf("the counters change from %+v to %+v", before, after)
	}
}

// TestLiveLease: no process can take a lease on open live files, and a leased file is an error.
func TestLiveLease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	lease := func(name string) (*os.File, error) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		return f, err
	}
	for _, name := range []string{meminfoName, statName} {
		if _, err := lease(name); err != unix.EAGAIN {
			t.Errorf("lease on %s: %v", name, err)
		}
	}
	l.Close()
	f, err := lease(statName)
	if err != nil {
		t.Skip("this file system has no leases")
	}
	if _, err := OpenLive(dir, bothParts); !errors.Is(err, ErrLeased) {
		t.Errorf("a leased file: %v", err)
	}
	f.Close()
	if next, err := OpenLive(dir, bothParts); err != nil {
		t.Errorf("after the lease: %v", err)
	} else {
		next.Close()
	}
}

// TestMountLive: programs in a mount namespace find the memory and the CPUs of the view.
func TestMountLive(t *testing.T) {
	skipUnlessRoot(t)
	views := filepath.Join(t.TempDir(), "views")
	if err := os.Mkdir(views, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(views, "web")
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	l := openLiveView(t, dir)
	if err := l.WriteMemory(limited, MachineMemory{Total: gib}); err != nil {
		t.Fatal(err)
	}
	if err := l.WriteStat(StatSample{Time: time.Hour, CPUs: cpuset.Of(0)}); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := inside(t, "live", dir, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"MemTotal": "65536", "swaps": "1", "stat": "1", "write": "refused", "observed": "web true true"}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %q, want %q", name, got[name], value)
		}
	}
}

// TestLiveUpdates: an update of another process waits for the update that runs, and not for a process that has stopped in its
// update.
func TestLiveUpdates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	l := openLiveView(t, dir)
	less := limited
	less.Bound.Limit, less.Free, less.Available = 32*mib, 30*mib, 31*mib
	measure := func(m cgroup.Memory) func() (cgroup.Memory, MachineMemory, error) {
		return func() (cgroup.Memory, MachineMemory, error) { return m, MachineMemory{Total: gib}, nil }
	}
	total := func(want int64) {
		t.Helper()
		if got, err := ReadMemTotal(dir); got != want || err != nil {
			t.Errorf("MemTotal %d, %v; want %d", got, err, want)
		}
	}
	done := make(chan error)
	if err := l.Update(func() error { // has measured the former limit
		go func() { done <- UpdateMemory(dir, measure(less)) }()
		time.Sleep(updateTurn / 5)
		return l.WriteMemory(limited, MachineMemory{Total: gib})
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	total(32 * mib)
	if err := l.Update(func() error { return UpdateMemory(dir, measure(limited)) }); err != nil {
		t.Fatal(err)
	}
	total(64 * mib)
	calls := 0
	if err := l.Update(func() error { // takes so long that another process does not wait for it
		if calls++; calls > 1 {
			return l.WriteMemory(less, MachineMemory{Total: gib})
		}
		if err := UpdateMemory(dir, measure(less)); err != nil {
			return err
		}
		return l.WriteMemory(limited, MachineMemory{Total: gib})
	}); err != nil || calls != 2 {
		t.Errorf("%v, %d measurements", err, calls)
	}
	total(32 * mib)
	if err := UpdateMemory(dir, measure(limited)); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("cannot measure")
	if err := UpdateMemory(dir, func() (cgroup.Memory, MachineMemory, error) { return cgroup.Memory{}, MachineMemory{}, failed }); !errors.Is(err, failed) {
		t.Errorf("a failed measurement: %v", err)
	}
	if err := UpdateMemory(filepath.Join(dir, "none"), measure(less)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no view: %v", err)
	}
	total(64 * mib)
}

// TestExtendLine: a longer text first lengthens the last line of the file, and a shorter text gets the length of the file.
func TestExtendLine(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, step := range []struct{ text, before, after string }{
		{"cpu 1\nintr 0\n", "", "cpu 1\nintr 0\n"},
		{"cpu 1\ncpu0 1\nintr 0\n", "cpu 1\nintr 0       \n", "cpu 1\ncpu0 1\nintr 0\n"},
		{"cpu 2\n", "cpu 1\ncpu0 1\nintr 0\n", "cpu 2              \n"},
	} {
		text, err := extendLine(f, []byte(step.text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Name()); string(got) != step.before || err != nil {
			t.Errorf("%q: before the write %q, %v; want %q", step.text, got, err, step.before)
		}
		if err := (rewrite{f, text}).put(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Name()); string(got) != step.after || err != nil {
			t.Errorf("%q: %q, %v; want %q", step.text, got, err, step.after)
		}
	}
}
