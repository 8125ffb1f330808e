package cluster

import (
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestHold: the CPUs of preempted pods are held for the preempting pod until it is reserved or deleted, or
// until a timeout. Other pods do not get the CPUs.
func TestHold(t *testing.T) {
	for _, end := range []string{"reserved", "gone", "late"} {
		c := New(patience)
		agent := newNode(t, "core:4", hybrid.Options{})
		low, high, small := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000)), pod(t, "small", sensitive("app", 1000))
		c.Bound("n", low, start)
		create(t, agent, low)
		c.Report("n", 1, reportOf(t, agent), start)
		if r := c.HoldFor("n", high, map[string]bool{"low": true}, start); r != nil || c.HeldOn("high") != "" {
			t.Errorf("got %v, held on %q; want no hold before a pod is deleted", r, c.HeldOn("high"))
		}
		for range 2 { // the second attempt changes nothing
			if r := c.HoldFor("n", high, nil, start); r != errAwaitingReport || c.HeldOn("high") != "n" {
				t.Errorf("got %v, held on %q; want to wait for the report, held on n", r, c.HeldOn("high"))
			}
		}
		c.Forget("low")
		wantRefusal(t, c, "n", small, "CPUs are reserved for pods that cannot start yet")
		wantRefusal(t, c, "n", high, "no capacity (1 CPU missing)")
		c.Report("n", 2, newNode(t, "core:4", hybrid.Options{}), start)
		if !c.FitsAfterReport("n", 1, high) {
			t.Error("the report does not wake high")
		}
		if r := c.HoldFor("n", high, nil, start); r != nil || c.HeldOn("high") != "n" {
			t.Errorf("got %v, held on %q; want CPUs held on n", r, c.HeldOn("high"))
		}
		wantRefusal(t, c, "n", high, "")
		wantRefusal(t, c, "n", low, "no capacity (1 CPU missing)")
		if r := c.Trial("n").Fits(high, nil); r != nil {
			t.Errorf("in a trial: %v", r)
		}
		if got := c.Totals(); got != (Totals{Reporting: 1}) {
			t.Errorf("got %+v, want only a report", got)
		}
		switch end {
		case "reserved":
			reserve(t, c, "n", high)
			c.Cancel("high")
		case "gone":
			c.Forget("high")
		case "late":
			if gone := c.Expire(start.Add(patience + time.Second)); len(gone) != 1 || gone[0] != (Expired{Pod: high, Node: "n", Held: true}) {
				t.Errorf("expired: got %+v, want the hold of high", gone)
			}
		}
		if c.HeldOn("high") != "" {
			t.Errorf("%s: CPUs are still held", end)
		}
		wantRefusal(t, c, "n", low, "")
	}
}

// TestHoldMoves: if CPUs of another node are held for a pod, or another scheduler binds it, the earlier hold
// ends.
func TestHoldMoves(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low, high := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000))
	create(t, agent, low)
	for _, name := range []string{"n", "m"} {
		c.Bound(name, pod(t, "low", sensitive("app", 3000)), start)
		c.Report(name, 1, reportOf(t, agent), start)
		if r := c.HoldFor(name, high, nil, start); r != errAwaitingReport || c.HeldOn("high") != name {
			t.Errorf("got %v, held on %q; want held on %s", r, c.HeldOn("high"), name)
		}
	}
	wantRefusal(t, c, "n", pod(t, "small", sensitive("app", 1000)), "")
	c.Bound("m", high, start) // by another scheduler
	if c.HeldOn("high") != "" || c.Totals().Reserved != 1 {
		t.Errorf("held on %q, %+v; want no hold and a reservation", c.HeldOn("high"), c.Totals())
	}
	if r := c.HoldFor("m", high, nil, start); r != nil {
		t.Errorf("HoldFor of a bound pod: got %v, want nil", r)
	}
}

// preempting returns a cluster with a node and two pods. The pod low1 is deleted but still in the report, and
// CPUs are held for the pod high, which preempts low2. agent is the node as its agent has it.
func preempting(t *testing.T, first, second, third hybrid.Milli) (c *Cluster, agent *hybrid.Node, low1, high *Pod) {
	t.Helper()
	c = New(patience)
	agent = newNode(t, "core:4", hybrid.Options{})
	low1, low2 := pod(t, "low1", sensitive("app", first)), pod(t, "low2", sensitive("app", second))
	high = pod(t, "high", sensitive("app", third))
	for _, low := range []*Pod{low1, low2} {
		c.Bound("n", low, start)
		create(t, agent, low)
	}
	c.Report("n", 1, reportOf(t, agent), start)
	c.Forget("low1")
	if r := c.HoldFor("n", high, map[string]bool{"low2": true}, start); r != errAwaitingReport {
		t.Fatal(r)
	}
	return c, agent, low1, high
}

// TestReportWakesHolder: a report that lacks a deleted pod wakes the pod whose CPUs are held, even if the
// held CPUs fill the node again.
func TestReportWakesHolder(t *testing.T) {
	c, agent, low1, high := preempting(t, 2000, 1000, 3000)
	end(t, agent, low1)
	c.Report("n", 2, reportOf(t, agent), start)
	if !c.FitsAfterReport("n", 1, high) {
		t.Error("the report does not wake high")
	}
}

// TestHoldKeepsFractions: the free CPU time is held for the preempting pod, even if it is too little for this
// pod.
func TestHoldKeepsFractions(t *testing.T) {
	c, agent, low1, high := preempting(t, 1600, 1600, 2400)
	wantRefusal(t, c, "n", pod(t, "small", sensitive("app", 400)), "CPUs are reserved for pods that cannot start yet")
	end(t, agent, low1)
	c.Report("n", 2, reportOf(t, agent), start)
	wantRefusal(t, c, "n", high, "")
}
