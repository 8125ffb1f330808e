package cluster

import (
	"sync"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestReportedThenMissing: if a later report lacks a reported pod, as after a reboot, the pod keeps its CPUs
// until its reservation expires again.
func TestReportedThenMissing(t *testing.T) {
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
		wantRefusal(t, c, "n", big, "no capacity (1 CPU missing)")
		if gone := c.Expire(later.Add(patience)); gone != nil {
			t.Errorf("%s: expired before the timeout: %+v", gap, gone)
		}
		c.Report("n", 5, reportOf(t, agent), later) // the containers run again
		if got := c.Totals(); got != (Totals{Reporting: 1}) {
			t.Errorf("%s: got %+v, want no reservation for a reported pod", gap, got)
		}
		c.Report("n", 6, newNode(t, "core:4", hybrid.Options{}), later)
		if gone := c.Expire(later.Add(patience + time.Second)); len(gone) != 1 {
			t.Errorf("%s: expired: got %+v, want web", gap, gone)
		}
		wantRefusal(t, c, "n", big, "")
		c.Report("n", 7, newNode(t, "core:4", hybrid.Options{}), later)
		wantRefusal(t, c, "n", big, "") // an expired reservation does not return
		c.Forget("web")
		c.Report("n", 8, reportOf(t, agent), later)
		c.Report("n", 9, newNode(t, "core:4", hybrid.Options{}), later)
		wantRefusal(t, c, "n", pod(t, "all", sensitive("app", 4000)), "")
	}
}

// TestContainerRemovedFromPod: a container that was removed from its pod no longer reserves CPUs.
func TestContainerRemovedFromPod(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	both, one := pod(t, "web", sensitive("app", 1000), sensitive("job", 2000)), pod(t, "web", sensitive("app", 1000))
	c.Report("n", 1, reportOf(t, agent), start)
	c.Bound("n", both, start)
	create(t, agent, one)
	c.Report("n", 2, reportOf(t, agent), start)
	big := pod(t, "big", sensitive("app", 3000))
	wantRefusal(t, c, "n", big, "no capacity (2 CPUs missing)")
	c.Bound("n", one, start)
	wantRefusal(t, c, "n", big, "")
	c.Bound("n", both, start)
	wantRefusal(t, c, "n", big, "no capacity (2 CPUs missing)")
}

// TestCancel: a failed binding ends the reservation, unless the pod was bound nevertheless.
func TestCancel(t *testing.T) {
	c := New(patience)
	c.Report("n", 1, newNode(t, "core:4", hybrid.Options{}), start)
	web, big := pod(t, "web", sensitive("app", 2500)), pod(t, "big", sensitive("app", 2000))
	reserve(t, c, "n", web)
	c.Cancel("web")
	wantRefusal(t, c, "n", big, "")
	c.Cancel("web")
	c.Bound("n", web, start) // the binding arrives after the failure
	wantRefusal(t, c, "n", big, "no capacity (500m missing)")
	c.Forget("web")

	reserve(t, c, "n", web)
	c.Bound("n", web, start)
	c.Cancel("web")
	wantRefusal(t, c, "n", big, "no capacity (500m missing)")
	if _, refusal := c.Reserve("other", web, start); refusal != errBound { // a second attempt of the scheduler
		t.Errorf("reservation of a bound pod on another node: got %v, want %v", refusal, errBound)
	}
	wantRefusal(t, c, "n", big, "no capacity (500m missing)")
}

// TestFitsWithout: FitsWithout ignores the reservation of a pod, but does not end it. Containers in the
// node's report still count.
func TestFitsWithout(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	web, db, big := pod(t, "web", sensitive("app", 1500)), pod(t, "db", sensitive("app", 1500)), pod(t, "big", sensitive("app", 2000))
	reserve(t, c, "n", web)
	c.Bound("n", db, start)
	for other, want := range map[string]bool{"web": true, "db": true, "big": false, "": false} {
		if r := c.FitsWithout("n", big, other); (r == nil) != want {
			t.Errorf("without %q: got %v, want fit %v", other, r, want)
		}
	}
	wantRefusal(t, c, "n", big, "no capacity (1 CPU missing)")
	create(t, agent, db)
	c.Report("n", 2, reportOf(t, agent), start)
	if c.FitsWithout("n", big, "db") == nil {
		t.Error("big fits while the report contains db")
	}
	if r := c.FitsWithout("none", big, "web"); r != errNoCandor {
		t.Error(r)
	}
}

// TestNodeWithoutReport: a reservation expires although its pod runs and the node has not reported since. The
// node then takes no sensitive pods until its next report.
func TestNodeWithoutReport(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	web, next := pod(t, "web", sensitive("app", 1000)), pod(t, "next", sensitive("app", 1000))
	expire := func(started bool, report time.Time) {
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
	expire(false, start) // the image may still be downloading
	wantRefusal(t, c, "n", next, "")
	expire(true, start.Add(time.Second)) // the node reports, but does not manage the pod
	wantRefusal(t, c, "n", next, "")
	expire(true, start)
	wantRefusal(t, c, "n", next, "node does not report")
	wantRefusal(t, c, "n", pod(t, "any", flexible("app", 100)), "")
	if r := c.Trial("n").Fits(next, nil); r != errSilent {
		t.Errorf("in a trial: %v", r)
	}
	before := c.Version("n")
	c.Report("n", before+1, reportOf(t, agent), start)
	wantRefusal(t, c, "n", next, "")
	if !c.FitsAfterReport("n", before, next) {
		t.Error("the next report of the node wakes no waiting pod")
	}
}

// TestPlannedPods: a planned pod from before a restart of the scheduler claims its CPUs. If it does not fit,
// other pods do not get the remaining CPUs.
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
			wantRefusal(t, c, "n", small, "CPUs are reserved for pods that cannot start yet")
		} else {
			wantRefusal(t, c, "n", small, "")
		}
		if gone := c.Expire(start.Add(patience + time.Second)); len(gone) != 1 || gone[0].Ours != planned {
			t.Errorf("expired: got %+v, want a pod with Ours %v", gone, planned)
		}
	}
}

// TestPodsDuringReport binds a pod while its node reports with and without the pod. Run it with the race
// detector.
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
		t.Errorf("got %+v, want a report and a reservation", got)
	}
}
