package publish

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// seeing returns an observation of a container whose files show CPUs.
func seeing(cpus cpuset.Set, note string) host.Observation {
	return host.Observation{Note: note, Observation: view.Observation{Sources: []view.Source{
		{Name: view.SourceAffinity, Role: view.Reported, CPUs: cpus},
		{Name: "online", Role: view.Reported, CPUs: cpus}, {Name: "cpuinfo", Role: view.Reported, CPUs: cpus},
	}}}
}

// TestViewFault: only a sensitive container that does not see the CPUs of its limit has a fault, and the fault has a remedy.
func TestViewFault(t *testing.T) {
	for name, test := range map[string]struct {
		class hybrid.Class
		view  spec.View
		limit hybrid.Milli
		lost  cpuset.Set
		seen  host.Observation
		want  string // in the fault; "": none
	}{
		"right":           {hybrid.Sensitive, spec.ViewFull, 1500, cpuset.Set{}, seeing(cpuset.Range(0, 1), ""), ""},
		"other CPUs":      {hybrid.Sensitive, spec.ViewFull, 1500, cpuset.Set{}, seeing(cpuset.Range(4, 5), "its view shows CPUs 4-5"), ""},
		"no view":         {hybrid.Sensitive, spec.ViewFull, 2000, cpuset.Set{}, seeing(cpuset.Range(0, 7), "no view is mounted: restart it to mount the view"), "no view is mounted: restart it"},
		"no known reason": {hybrid.Sensitive, spec.ViewFull, 2000, cpuset.Set{}, seeing(cpuset.Range(0, 7), ""), "candor inspect"},
		"own affinity":    {hybrid.Sensitive, spec.ViewFull, 2000, cpuset.Set{}, seeing(cpuset.Range(0, 1), "its program has limited its own affinity"), ""},
		"affinity only":   {hybrid.Sensitive, spec.ViewAffinity, 2000, cpuset.Set{}, seeing(cpuset.Range(0, 7), ""), ""},
		"too many CPUs":   {hybrid.Sensitive, spec.ViewFull, 1000, cpuset.Set{}, seeing(cpuset.Range(0, 1), ""), "policy: strict"},
		"lost CPU":        {hybrid.Sensitive, spec.ViewFull, 3000, cpuset.Range(2, 2), seeing(cpuset.Range(0, 1), ""), "2 went offline"},
		"flexible":        {hybrid.Flexible, spec.ViewFull, 500, cpuset.Set{}, seeing(cpuset.Range(0, 7), ""), ""},
		"hidden": {hybrid.Sensitive, spec.ViewFull, 2000, cpuset.Set{},
			host.Observation{Note: "its view cannot be read", Observation: view.Observation{IsHidden: true}}, ""},
	} {
		g := &host.Grant{Engine: host.Engine{Pod: "uid", Name: "default/web/app"}}
		g.Class, g.View, g.Limit, g.Lost, g.CPUs = test.class, test.view, test.limit, test.lost, cpuset.Range(0, 1)
		got := viewFault(g, &test.seen)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if got != "" && !strings.HasPrefix(got, "container default/web/app ") {
			t.Errorf("%s: %q does not name the container", name, got)
		}
	}
}

// TestWatchViews: a wrong view is recorded if it lasts for 5 s, and again after 30 minutes. After it was right, it is recorded
// again.
func TestWatchViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t}
		m := &machine{state: snapshot(t), seen: map[string]view.Summary{}}
		m.state.Grants[0].View = spec.ViewFull
		w := WatchViews(m, l)
		observe := func(files int) {
			t.Helper()
			time.Sleep(checkInterval)
			m.seen["web.app-1a2b3c4d"] = view.Summary{Affinity: 2, Files: files}
			s, err := w.Snapshot()
			if err == nil {
				_, err = w.Observe(&s.Grants[0])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want := func(events int) {
			t.Helper()
			if len(l.noted) != events || events > 0 && l.noted[0] != "CPUViewWrong web" {
				t.Errorf("got Events %v, want %d", l.noted, events)
			}
		}
		observe(8)
		observe(2)
		observe(8) // only for a moment
		want(0)
		observe(8)
		observe(8)
		want(1)
		time.Sleep(30 * time.Minute)
		observe(8)
		want(2)
		observe(2)
		observe(8)
		observe(8)
		want(3)
		m.state.Grants = nil
		if _, err := w.Snapshot(); err != nil || len(w.(*viewWatch).wrong) != 0 {
			t.Errorf("%v: the watch still has %d containers", err, len(w.(*viewWatch).wrong))
		}
	})
}

// TestRecordRepairs: a repair of a pod's container is recorded. A repair of a container of candor run is not.
func TestRecordRepairs(t *testing.T) {
	l := &lab{t: t}
	p := &Publisher{events: sink{l}}
	p.RecordRepairs(&host.Report{Repairs: []host.Repair{
		{ID: "solver", Change: "had CPUs 0-3, and has CPUs 1 again"},
		{ID: "web.app-1", Engine: host.Engine{Pod: "uid", Name: "default/web/app"}, Change: "had CPUs 0-3, and has CPUs 1 again"},
	}})
	if len(l.noted) != 1 || l.noted[0] != "CPUsRepaired web" {
		t.Errorf("got Events %v, want one of the pod web", l.noted)
	}
}
