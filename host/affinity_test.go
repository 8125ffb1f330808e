package host

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// TestPinnedThreads checks that a thread's own affinity survives operations for other containers. Before Linux 6.2,
// such a container's fraction must not move.
func TestPinnedThreads(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	a := l.must(ask("a", "1.3"), "pin")
	io.WriteString(a.in, "\n")
	if got := a.line(t); got != "pinned" {
		t.Fatal(got)
	}
	if !pinsAny(a.cmd.Process.Pid, a.CPUs) {
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
	if pinsAny(free.cmd.Process.Pid, free.CPUs) {
		t.Error("found an affinity that no thread has set")
	}
}

// TestPinnedBound checks that an operation inspects a bounded number of threads, and assumes an affinity beyond them.
func TestPinnedBound(t *testing.T) {
	pid := os.Getpid()
	all := affinity(t, pid)
	threads := 1000
	if pinsThread(pid, all, &threads) || threads >= 1000 || threads < 900 {
		t.Errorf("%d of 1000 threads are left to inspect, or one has an affinity of its own", threads)
	}
	threads = 2
	if !pinsThread(pid, all, &threads) {
		t.Error("threads beyond the bound are taken for threads without an affinity")
	}
}

func pinsAny(pid int, cpus cpuset.Set) bool {
	threads := maxPinned
	return pinsThread(pid, cpus, &threads)
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

// TestPinnedFractionStays: if a fraction must move and the kernel would reset the affinity of pinned threads,
// Candor moves the fraction of another container.
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
	// The request needs one CPU more than is free: the fractions of a and c must share a CPU.
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

// TestNestedCpuset: nested cgroups with a cpuset do not prevent a container from shrinking.
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

// nest creates a cgroup inside a container, as Docker in a container does, and moves a process there. The returned
// function reads the CPUs of the nested cgroup.
func (l *lab) nest(name, inner string, cpus cpuset.Set, pid int) (read func() string) {
	l.Helper()
	self := findCpusetDir(l, pid)
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
