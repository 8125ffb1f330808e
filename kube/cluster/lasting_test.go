package cluster

import (
	"sync"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestShownAndMissed: a pod that its node has reported keeps its CPUs if a later report lacks it, as after a reboot,
// until its reservation expires again.
func TestShownAndMissed(t *testing.T) {
	for _, gap := range []string{"", "without a report between"} {
		c := New(patience)
		agent := newNode(t, "core:4", hybrid.Options{})
		web, big := pod(t, "web", sensitive("app", 2500), sensitive("log", 500)), pod(t, "big", sensitive("app", 2000))
		c.Report("n", 1, reportOf(t, agent), start)
		reserve(t, c, "n", web)
		c.Bound("n", web, start)
		create(t, agent, web)
		c.Report("n", 2, reportOf(t, agent), start)
		if gap != "" {
			c.NoReport("n", 3, Gone)
		}
		later := start.Add(time.Hour)
		c.Report("n", 4, newNode(t, "core:4", hybrid.Options{}), later)
		wants(t, c, "n", big, "no capacity (1 CPU missing)")
		if gone := c.Expire(later.Add(patience)); gone != nil {
			t.Errorf("%s: %+v: too early", gap, gone)
		}
		c.Report("n", 5, reportOf(t, agent), later) // it has made them again
		if got := c.Totals(); got != (Totals{Reporting: 1}) {
			t.Errorf("%s: %+v: what the report shows is still reserved", gap, got)
		}
		c.Report("n", 6, newNode(t, "core:4", hybrid.Options{}), later)
		if gone := c.Expire(later.Add(patience + time.Second)); len(gone) != 1 {
			t.Errorf("%s: %+v: want web", gap, gone)
		}
		wants(t, c, "n", big, "")
		c.Report("n", 7, newNode(t, "core:4", hybrid.Options{}), later)
		wants(t, c, "n", big, "") // given up stays given up
		c.Forget("web")
		c.Report("n", 8, reportOf(t, agent), later)
		c.Report("n", 9, newNode(t, "core:4", hybrid.Options{}), later)
		wants(t, c, "n", pod(t, "all", sensitive("app", 4000)), "")
	}
}

// TestContainerRemovedFromPod: a container that the pod no longer has is not awaited, whether the node shows the other containers
// or not.
func TestContainerRemovedFromPod(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	both, one := pod(t, "web", sensitive("app", 1000), sensitive("job", 2000)), pod(t, "web", sensitive("app", 1000))
	c.Report("n", 1, reportOf(t, agent), start)
	c.Bound("n", both, start)
	create(t, agent, one)
	c.Report("n", 2, reportOf(t, agent), start)
	big := pod(t, "big", sensitive("app", 3000))
	wants(t, c, "n", big, "no capacity (2 CPUs missing)")
	c.Bound("n", one, start)
	wants(t, c, "n", big, "")
	c.Bound("n", both, start)
	wants(t, c, "n", big, "no capacity (2 CPUs missing)")
}

// TestCancel: a failed binding ends the reservation, unless the pod was bound nevertheless.
func TestCancel(t *testing.T) {
	c := New(patience)
	c.Report("n", 1, newNode(t, "core:4", hybrid.Options{}), start)
	web, big := pod(t, "web", sensitive("app", 2500)), pod(t, "big", sensitive("app", 2000))
	reserve(t, c, "n", web)
	c.Cancel("web")
	wants(t, c, "n", big, "")
	c.Cancel("web")
	c.Bound("n", web, start) // the binding is known after the failure
	wants(t, c, "n", big, "no capacity (500m missing)")
	c.Forget("web")

	reserve(t, c, "n", web)
	c.Bound("n", web, start)
	c.Cancel("web")
	wants(t, c, "n", big, "no capacity (500m missing)")
	if _, refusal := c.Reserve("other", web, start); refusal != errBound { // tried once more
		t.Errorf("reserved elsewhere: %v", refusal)
	}
	wants(t, c, "n", big, "no capacity (500m missing)")
}

// TestFitsWithout: a query without a leaving pod does not change the state of that pod.
func TestFitsWithout(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	web, db, big := pod(t, "web", sensitive("app", 1500)), pod(t, "db", sensitive("app", 1500)), pod(t, "big", sensitive("app", 2000))
	reserve(t, c, "n", web)
	c.Bound("n", db, start)
	for other, want := range map[string]bool{"web": true, "db": true, "big": false, "": false} {
		if r := c.FitsWithout("n", big, other); (r == nil) != want {
			t.Errorf("without %q: %v", other, r)
		}
	}
	wants(t, c, "n", big, "no capacity (1 CPU missing)")
	create(t, agent, db)
	c.Report("n", 2, reportOf(t, agent), start)
	if c.FitsWithout("n", big, "db") == nil { // the node has its containers
		t.Error("fits before the node has reported the end of the other")
	}
	if r := c.FitsWithout("none", big, "web"); r != errNoCandor {
		t.Error(r)
	}
}

// TestNodeWithoutReport: a node that runs its pods and does not report them takes no more pods until it reports.
func TestNodeWithoutReport(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	web, next := pod(t, "web", sensitive("app", 1000)), pod(t, "next", sensitive("app", 1000))
	given := func(started bool, report time.Time) {
		c.Forget("web")
		c.Report("n", c.Version("n")+1, reportOf(t, agent), start)
		reserve(t, c, "n", web)
		running := pod(t, "web", sensitive("app", 1000))
		running.Started = started
		c.Bound("n", running, start)
		if report != start {
			c.Report("n", c.Version("n")+1, reportOf(t, agent), report)
		}
		c.Expire(start.Add(patience + time.Second))
	}
	given(false, start) // its image may be on the way
	wants(t, c, "n", next, "")
	given(true, start.Add(time.Second)) // its agent leaves the pod alone
	wants(t, c, "n", next, "")
	given(true, start)
	wants(t, c, "n", next, "node does not report")
	wants(t, c, "n", pod(t, "any", flexible("app", 100)), "")
	if r := c.Trial("n").Fits(next, nil); r != errSilent {
		t.Errorf("in a trial: %v", r)
	}
	before := c.Version("n")
	c.Report("n", before+1, reportOf(t, agent), start)
	wants(t, c, "n", next, "")
	if !c.FitsAfterReport("n", before, next) {
		t.Error("no waiting pod is woken when the node reports again")
	}
}

// TestPlannedPods: after a restart of the scheduler, its earlier pods count as before. If they lack CPUs, no other pod
// gets the rest.
func TestPlannedPods(t *testing.T) {
	for _, planned := range []bool{false, true} {
		c := New(patience)
		agent := newNode(t, "core:4", hybrid.Options{})
		create(t, agent, pod(t, "static", sensitive("app", 2000)))
		c.Report("n", 1, agent, start)
		web, small := pod(t, "web", sensitive("app", 3000)), pod(t, "small", sensitive("app", 1000))
		web.Planned = planned
		c.Bound("n", web, start)
		if planned {
			wants(t, c, "n", small, "CPUs are reserved for pods that cannot start yet")
		} else {
			wants(t, c, "n", small, "")
		}
		if gone := c.Expire(start.Add(patience + time.Second)); len(gone) != 1 || gone[0].Ours != planned {
			t.Errorf("%+v: want ours: %v", gone, planned)
		}
	}
}

// TestPodsDuringReport: pods arrive while their node reports, for the race detector.
func TestPodsDuringReport(t *testing.T) {
	c := New(patience)
	web := pod(t, "web", sensitive("app", 1000))
	empty, full := newNode(t, "core:4", hybrid.Options{}), newNode(t, "core:4", hybrid.Options{})
	create(t, full, web)
	c.Report("n", 1, empty, start)
	var both sync.WaitGroup
	both.Go(func() {
		for i := range 1000 {
			c.Report("n", uint64(2*i+2), full, start)
			c.Report("n", uint64(2*i+3), empty, start)
		}
	})
	both.Go(func() {
		for range 2000 {
			c.Bound("n", web, start)
		}
	})
	both.Wait()
	if got := c.Totals(); got != (Totals{Reporting: 1, Reserved: 1}) {
		t.Errorf("%+v", got)
	}
}
