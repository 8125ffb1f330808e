package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
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
	hidden := func(o Observation) Observation { o.IsHidden = true; return o }
	for _, test := range []struct {
		name           string
		view           spec.View
		o              Observation
		cpus           string
		seen           spec.View
		summary, noted string
	}{
		{"a view", spec.ViewFull, withView(seenOn("0-1", "0-1", "0-1")), "0-1", spec.ViewFull, "2", ""},
		{"no view is mounted", spec.ViewFull, seenOn("0", "0-1", "0-1"), "0", spec.ViewAffinity, "1/2", "restart it to mount the view"},
		{"no view, but all CPUs", spec.ViewFull, seenOn("0-1", "0-1", "0-1"), "0-1", spec.ViewAffinity, "2", ""},
		{"half a view", spec.ViewFull, seenOn("0", "0", "0-1"), "0", "", "1/2", "restart it to mount the view"},
		{"no view by its setting", spec.ViewAffinity, seenOn("0", "0-1", "0-1"), "0", spec.ViewAffinity, "1/2", ""},
		{"a view against its setting", spec.ViewAffinity, withView(seenOn("0", "0", "0")), "0", spec.ViewFull, "1", ""},
		{"lxcfs over its view", spec.ViewFull, seenOn("0", "0", "?"), "0", "", "1/?", "remove that mount"},
		{"lxcfs without a view", spec.ViewAffinity, seenOn("0", "0-3", "?"), "0", "", "1/4", ""},
		{"too many mounts", spec.ViewFull, hidden(seenOn("0", "?", "?")), "0", "", "1/?", "its view cannot be read: a file of fuse.lxcfs"},
		{"an old view of as many CPUs", spec.ViewFull, withView(seenOn("0-1", "2-3", "2-3")), "0-1", spec.ViewFull, "2", "the next operation rewrites"},
		{"an affinity of its own", spec.ViewFull, withView(seenOn("0", "0-1", "0-1")), "0-1", spec.ViewFull, "1/2", "limited its own affinity to CPUs 0 of 0-1"},
		{"an affinity of its own, no view", spec.ViewAffinity, seenOn("0", "0-3", "0-3"), "0-1", spec.ViewAffinity, "1/4", "limited its own affinity"},
		{"unknown", spec.ViewFull, Observation{Observation: view.Observation{IsHidden: true}}, "0", "", "-", ""},
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

// TestObserveWidest: if the first process restricts itself to a CPU, the affinity of the other processes counts.
func TestObserveWidest(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	log := l.must(flexible("log", "0.5"), "wait")
	var mask unix.CPUSet
	mask.Set(log.CPUs.First())
	if err := unix.SchedSetaffinity(log.cmd.Process.Pid, &mask); err != nil {
		t.Fatal(err)
	}
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
