package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// seenOn returns an observation with the given CPUs; "?" is a file with unknown CPUs.
func seenOn(affinity, online, cpuinfo string) (o Observation) {
	for i, list := range []string{affinity, online, cpuinfo} {
		s := view.Source{Name: []string{view.SourceAffinity, "online", "cpuinfo"}[i], Role: view.Reported}
		if list == "?" {
			s.Error = "a file of fuse.lxcfs"
		} else {
			s.CPUs = cpuset.MustParse(list)
		}
		s.Count = s.CPUs.Count()
		o.Sources = append(o.Sources, s)
	}
	return o
}

// TestCompare: the note explains a difference between the sources that the setting of the view does not explain.
func TestCompare(t *testing.T) {
	withView := func(o Observation) Observation { o.View = "web"; return o }
	removed := func(o Observation) Observation {
		for i := range o.Sources {
			if s := &o.Sources[i]; s.Error != "" {
				s.Error = view.ErrorRemoved
			}
		}
		return o
	}
	hidden := func(o Observation) Observation { o.IsHidden = true; return o }
	for _, test := range []struct {
		name           string
		view           spec.View
		o              Observation
		cpus           string
		seen           spec.View
		summary, noted string
	}{
		{"a view", spec.ViewCPU, withView(seenOn("0-1", "0-1", "0-1")), "0-1", spec.ViewCPU, "2", ""},
		{"no view is mounted", spec.ViewCPU, seenOn("0", "0-1", "0-1"), "0", spec.ViewAffinity, "1/2", "restart it to mount the view"},
		{"no view, but all CPUs", spec.ViewCPU, seenOn("0-1", "0-1", "0-1"), "0-1", spec.ViewAffinity, "2", ""},
		{"half a view", spec.ViewCPU, seenOn("0", "0", "0-1"), "0", "", "1/2", "restart it to mount the view"},
		{"no view by its setting", spec.ViewAffinity, seenOn("0", "0-1", "0-1"), "0", spec.ViewAffinity, "1/2", ""},
		{"a view against its setting", spec.ViewAffinity, withView(seenOn("0", "0", "0")), "0", spec.ViewCPU, "1", ""},
		{"lxcfs over its view", spec.ViewCPU, seenOn("0", "0", "?"), "0", "", "1/?", "remove that mount"},
		{"lxcfs without a view", spec.ViewAffinity, seenOn("0", "0-3", "?"), "0", "", "1/4", ""},
		{"too many mounts", spec.ViewCPU, hidden(seenOn("0", "?", "?")), "0", "", "1/?", "its view cannot be read: a file of fuse.lxcfs"},
		{"an old view of as many CPUs", spec.ViewCPU, withView(seenOn("0-1", "2-3", "2-3")), "0-1", spec.ViewCPU, "2", "the next operation rewrites"},
		{"an affinity of its own", spec.ViewCPU, withView(seenOn("0", "0-1", "0-1")), "0-1", spec.ViewCPU, "1/2", "limited its own affinity to CPUs 0 of 0-1"},
		{"an affinity of its own, no view", spec.ViewAffinity, seenOn("0", "0-3", "0-3"), "0-1", spec.ViewAffinity, "1/4", "limited its own affinity"},
		{"a removed view", spec.ViewCPU, removed(seenOn("0-1", "?", "?")), "0-1", "", "2/?", "its view was removed: restart it to mount a new one"},
		{"a removed file of a view", spec.ViewCPU, removed(seenOn("0-1", "?", "0-1")), "0-1", "", "2/?", "its view was removed: restart it to mount a new one"},
		{"unknown", spec.ViewCPU, Observation{Observation: view.Observation{IsHidden: true}}, "0", "", "-", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := test.o
			o.compare(&Grant{Spec: spec.Spec{View: test.view}}, cpuset.MustParse(test.cpus))
			s := o.Summary()
			if o.SeenView != test.seen || s.String() != test.summary || (s.Note == "") != (test.noted == "") || !strings.Contains(s.Note, test.noted) {
				t.Errorf("seen %q, %s, %q; want %q, %s, %q", o.SeenView, s, s.Note, test.seen, test.summary, test.noted)
			}
		})
	}
}

// TestObserve: a container without a mounted view sees its cpuset in the affinity, and all CPUs in the files.
func TestObserve(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	o, err := l.Observe(web.Grant)
	if err != nil || o.CPUs() != web.CPUs || o.SeenView != spec.ViewAffinity || !strings.Contains(o.Note, "restart it") {
		t.Errorf("%+v, %v; want the affinity %v, no view, and its remedy", o, err, web.CPUs)
	}
	if files, isKnown := o.Files(); !isKnown || files.Count() < len(cpus) {
		t.Errorf("files show %v; want all CPUs of the machine", files)
	}
	web.stop()
	if _, err := l.Observe(web.Grant); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without processes: %v", err)
	}
	if err := l.Release(ctx, "web", true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Observe(web.Grant); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("after its end: %v", err)
	}
}

// setAffinity sets the affinity of all threads of a process. A thread inherits the affinity of the thread that creates it, so that no
// other thread can appear once all threads of a list had the affinity.
func setAffinity(t *testing.T, pid int, mask *unix.CPUSet) {
	t.Helper()
	for changed := true; changed; {
		threads, err := procfs.Threads(pid, 64)
		if err != nil {
			t.Fatal(err)
		}
		changed = false
		for _, thread := range threads {
			var now unix.CPUSet
			if err := unix.SchedGetaffinity(thread.ID, &now); err != nil {
				t.Fatal(err)
			}
			if now == *mask {
				continue
			}
			changed = true
			if err := unix.SchedSetaffinity(thread.ID, mask); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestObserveWidest: if the first process restricts itself to a CPU, the affinity of the other processes counts.
func TestObserveWidest(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	log := l.must(flexible("log", "0.5"), "wait")
	var mask unix.CPUSet
	mask.Set(log.CPUs.First())
	setAffinity(t, log.cmd.Process.Pid, &mask)
	if o, err := l.Observe(log.Grant); err != nil || o.CPUs() != log.CPUs.Lowest(1) || !strings.Contains(o.Note, "limited its own affinity") {
		t.Errorf("alone: %+v, %v; want the affinity %v", o, err, log.CPUs.Lowest(1))
	}
	other := l.must(flexible("other", "0.5"), "wait")
	if err := l.tree.Group("log").Enter(other.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if o, err := l.Observe(log.Grant); err != nil || o.CPUs() != log.CPUs || o.Note != "" {
		t.Errorf("beside another process: %+v, %v; want the affinity %v", o, err, log.CPUs)
	}
}

// TestObservePinnedThreads: if the program pins each of its threads to a CPU of its own, the CPUs of all threads count.
func TestObservePinnedThreads(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	log := l.must(flexible("log", "0.5"), "wait")
	pid := log.cmd.Process.Pid
	var threads []procfs.Thread
	for end := time.Now().Add(5 * time.Second); len(threads) < 2; time.Sleep(time.Millisecond) {
		var err error
		if threads, err = procfs.Threads(pid, 64); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Skip("the program has a single thread")
		}
	}
	var first, others unix.CPUSet
	for cpu := range log.CPUs.All() {
		if cpu == log.CPUs.First() {
			first.Set(cpu)
		} else {
			others.Set(cpu)
		}
	}
	for _, thread := range threads {
		mask := &others
		if thread.ID == pid {
			mask = &first
		}
		if err := unix.SchedSetaffinity(thread.ID, mask); err != nil {
			t.Fatal(err)
		}
	}
	if o, err := l.Observe(log.Grant); err != nil || o.CPUs() != log.CPUs || o.Note != "" {
		t.Errorf("%+v, %v; want the affinity %v without a note", o, err, log.CPUs)
	}
}

// TestReadUsageFiles: the observation of ReadUsage does not depend on the affinity that the first process sets.
func TestReadUsageFiles(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	r := flexible("log", "0.5")
	r.View = spec.ViewFull
	log := l.must(r, "wait")
	var mask unix.CPUSet
	mask.Set(log.CPUs.First())
	setAffinity(t, log.cmd.Process.Pid, &mask)
	if u, err := l.ReadUsage(log.Grant); err != nil || u.Observation.CPUs() != u.CPUs || u.Observation.Note != "" {
		t.Errorf("%+v, %v; want the affinity %v without a note", u, err, u.CPUs)
	}
}

// TestDegradedWhilePaused: a pause does not hide that a container is degraded.
func TestDegradedWhilePaused(t *testing.T) {
	g := &Grant{State: Running}
	g.TopologyMet = true
	s := &ContainerState{Processes: []int{1}, IsPaused: true, Differences: make([]Difference, 1)}
	if got := s.Condition(g); got != "degraded" {
		t.Errorf("%s, want degraded", got)
	}
	s.Differences = nil
	if got := s.Condition(g); got != "paused" {
		t.Errorf("%s, want paused", got)
	}
}

// TestPaused: a container is paused if its own group is frozen, but not while Candor stops it for its helpers.
func TestPaused(t *testing.T) {
	l := newLab(t)
	web := l.must(flexible("web", "0.5"), "wait")
	condition := func() string { return l.InspectContainer(web.Grant).Condition(web.Grant) }
	if got := condition(); got != "running" {
		t.Errorf("%s, want running", got)
	}
	file, frozen, thawed := "/sys/fs/cgroup/freezer"+l.parent+"/web/freezer.state", "FROZEN", "THAWED"
	if l.tree.Version() == 2 {
		file, frozen, thawed = filepath.Join("/sys/fs/cgroup", l.parent, "web/cgroup.freeze"), "1", "0"
	}
	if err := os.WriteFile(file, []byte(frozen), 0); err != nil {
		t.Skip(err)
	}
	if got := condition(); got != "paused" {
		t.Errorf("%s, want paused", got)
	}
	if err := os.WriteFile(file, []byte(thawed), 0); err != nil {
		t.Fatal(err)
	}
	f, err := l.tree.OpenFreezer("web")
	if errors.Is(err, cgroup.ErrNoFreezer) {
		return
	}
	if err == nil {
		defer f.Close()
		err = f.Freeze()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := condition(); got != "running" {
		t.Errorf("stopped for its helpers: %s, want running", got)
	}
}
