package main

import (
	"strings"
	"testing"

	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// withoutView returns the observation of a container with CPU 0 whose view is not mounted, on a machine with two CPUs.
func withoutView() host.Observation {
	o := exampleObservation("", cpuset.MustParse("0-1"))
	o.Sources[0].CPUs, o.Sources[0].Count = cpuset.Of(0), 1
	o.View, o.SeenView, o.Note = "", spec.ViewAffinity, "no view is mounted: restart it to mount the view"
	return o
}

// TestInspectSees: inspect shows the view that is set and the view that is seen, and the sources if they differ.
func TestInspectSees(t *testing.T) {
	hidden := exampleObservation("web", cpuset.Of(0))
	hidden.View, hidden.SeenView, hidden.Note = "", "", "its view cannot be read"
	hidden.Sources[1].Error = "file too long\x1b"
	for _, test := range []struct {
		name string
		o    host.Observation
		want string
	}{
		{"a view", exampleObservation("web", cpuset.MustParse("0-1")), "view       full (the program sees: full)\nsees       CPUs 0-1\n"},
		{"no view", withoutView(), "view       full (the program sees: affinity)\n" +
			"sees       1/2: no view is mounted: restart it to mount the view\n" +
			"           sched_getaffinity: CPU 0\n" +
			"           /sys/devices/system/cpu/online: CPUs 0-1\n" +
			"           /proc/cpuinfo: CPUs 0-1\n"},
		{"unknown", hidden, "view       full (the program sees: unknown)\n" +
			"sees       1/?: its view cannot be read\n" +
			"           sched_getaffinity: CPU 0\n" +
			"           /sys/devices/system/cpu/online: file too long \n" +
			"           /proc/cpuinfo: CPU 0\n"},
		{"not running", host.Observation{}, "view       full\n"},
	} {
		g := host.Grant{State: host.Running, Spec: spec.Spec{View: spec.ViewFull}}
		g.ID = "web"
		report := newInspection(&g, &host.ContainerState{}, 0)
		report.see(&test.o)
		var text strings.Builder
		if err := writeInspection(&text, report); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, &text, test.want)
		}
	}
}

// TestPsSees: ps shows affinity and files where they differ, and the remedy apart from the table.
func TestPsSees(t *testing.T) {
	g := host.Grant{State: host.Running, Spec: spec.Spec{View: spec.ViewFull}}
	g.ID, g.CPUs, g.TopologyMet = "web", cpuset.Of(0), true
	row := newGrantRow(&g, &host.ContainerState{Processes: []int{1}, IsPaused: true}, 0)
	o := withoutView()
	row.see(&o)
	var table, notes strings.Builder
	if err := writeRows(&table, 0, []grantRow{row}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(table.String()), " "); !strings.HasPrefix(got, "NAME CLASS LIMIT SEES CPUS STATE PROCS AGE COMMAND web sensitive - 1/2 0 paused 1") {
		t.Errorf("%s", got)
	}
	writeSeenNotes(&notes, []grantRow{row, {}})
	if want := "candor: web sees 1/2: no view is mounted: restart it to mount the view\n"; notes.String() != want {
		t.Errorf("%q, want %q", notes.String(), want)
	}
}

// A settlingHost has a note on the containers "moving" and "broken"; the note on "moving" is gone at the second observation.
type settlingHost map[string]int // number of observations, by ID

func (h settlingHost) Observe(g *host.Grant) (o host.Observation, err error) {
	if h[g.ID]++; g.ID == "broken" || g.ID == "moving" && h[g.ID] == 1 {
		return withoutView(), nil
	}
	return exampleObservation(g.ID, g.CPUs), nil
}

// TestObserveAll: a container with a note is observed once more, because an operation can be changing it.
func TestObserveAll(t *testing.T) {
	grants := make([]host.Grant, 4)
	for i, id := range []string{"web", "moving", "broken", "pending"} {
		grants[i].ID, grants[i].CPUs, grants[i].State = id, cpuset.Of(0), host.Running
	}
	grants[3].State = host.Pending
	h := settlingHost{}
	all := observeAll(h, grants)
	for i, hasNote := range []bool{false, false, true, false} {
		if (all[i].Note != "") != hasNote {
			t.Errorf("%s: note %q", grants[i].ID, all[i].Note)
		}
	}
	if h["web"] != 1 || h["moving"] != 2 || h["broken"] != 2 || h["pending"] != 0 {
		t.Errorf("observations: %v", h)
	}
	if seen := seenBy(settlingHost{}, grants); seen["moving"].Note != "" || seen["broken"].Note == "" {
		t.Errorf("%+v", seen)
	}
}

// TestWithoutGrant: the containers in Candor's cgroups, and the engines' containers with a grant, are not foreign.
func TestWithoutGrant(t *testing.T) {
	grants := []host.Grant{{}, {Engine: host.Engine{Cgroup: "/kubepods/pod1/b"}}}
	foreign := withoutGrant([]audit.Container{
		{Name: "own", Runtime: "candor", Group: "/candor/own"},
		{Name: "pod", Runtime: "containerd", Group: "/kubepods/pod1/b"},
		{Name: "web", Runtime: "docker", Group: "/docker/a", Sees: 2, SeesFiles: 4},
	}, grants)
	if len(foreign) != 1 || foreign[0].Name != "web" || foreign[0].SeenCPUs() != (view.Summary{Affinity: 2, Files: 4}) {
		t.Errorf("%+v", foreign)
	}
}
