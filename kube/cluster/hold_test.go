package cluster

import (
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestHold: the CPUs of preempted pods stay held for the preempting pod until it is reserved, deleted or late,
// whatever pods arrive in between.
func TestHold(t *testing.T) {
	for _, end := range []string{"reserved", "gone", "late"} {
		c := New(patience)
		agent := newNode(t, "core:4", hybrid.Options{})
		low, high, small := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000)), pod(t, "small", sensitive("app", 1000))
		c.Bound("n", low, start)
		create(t, agent, low)
		c.Report("n", 1, reportOf(t, agent), start)
		if r := c.HoldFor("n", high, map[string]bool{"low": true}, start); r != nil || c.HeldOn("high") != "" {
			t.Errorf("held while nobody has gone: %v", r)
		}
		for range 2 { // tried again
			if r := c.HoldFor("n", high, nil, start); r != errAwaitingReport || c.HeldOn("high") != "n" {
				t.Errorf("%v, held on %q", r, c.HeldOn("high"))
			}
		}
		c.Forget("low")
		wants(t, c, "n", small, "CPUs are reserved for pods that cannot start yet")
		wants(t, c, "n", high, "no capacity (1 CPU missing)")
		c.Report("n", 2, newNode(t, "core:4", hybrid.Options{}), start)
		if !c.FitsAfterReport("n", 1, high) {
			t.Error("not woken by the report")
		}
		if r := c.HoldFor("n", high, nil, start); r != nil || c.HeldOn("high") != "n" {
			t.Errorf("%v, held on %q", r, c.HeldOn("high"))
		}
		wants(t, c, "n", high, "")
		wants(t, c, "n", low, "no capacity (1 CPU missing)")
		if r := c.Trial("n").Fits(high, nil); r != nil {
			t.Errorf("in a trial: %v", r)
		}
		if got := c.Totals(); got != (Totals{Reporting: 1}) {
			t.Errorf("%+v", got)
		}
		switch end {
		case "reserved":
			reserve(t, c, "n", high)
			c.Cancel("high")
		case "gone":
			c.Forget("high")
		case "late":
			if gone := c.Expire(start.Add(patience + time.Second)); len(gone) != 1 || gone[0] != (Expired{Pod: high, Node: "n", Held: true}) {
				t.Errorf("%+v: want what was held for high", gone)
			}
		}
		if c.HeldOn("high") != "" {
			t.Errorf("still held: %s", end)
		}
		wants(t, c, "n", low, "")
	}
}

// TestHoldMoves: a pod that is bound elsewhere releases the CPUs that were held for it.
func TestHoldMoves(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low, high := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000))
	create(t, agent, low)
	for _, name := range []string{"n", "m"} {
		c.Bound(name, pod(t, "low", sensitive("app", 3000)), start)
		c.Report(name, 1, reportOf(t, agent), start)
		if r := c.HoldFor(name, high, nil, start); r != errAwaitingReport || c.HeldOn("high") != name {
			t.Errorf("%v, held on %q; want %s", r, c.HeldOn("high"), name)
		}
	}
	wants(t, c, "n", pod(t, "small", sensitive("app", 1000)), "")
	c.Bound("m", high, start) // by another scheduler
	if c.HeldOn("high") != "" || c.Totals().Reserved != 1 {
		t.Errorf("held on %q, %+v", c.HeldOn("high"), c.Totals())
	}
	if r := c.HoldFor("m", high, nil, start); r != nil {
		t.Errorf("a bound pod waits: %v", r)
	}
}

// preempting returns a cluster of one node with two pods. The first pod has been deleted, and a third pod waits for
// the end of the second. agent is the node as its agent knows it.
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

// TestHelpedWhereHeld: a pod that waits for the end of other pods is woken by a report, also if the CPUs held for it
// fill the node as before.
func TestHelpedWhereHeld(t *testing.T) {
	c, agent, low1, high := preempting(t, 2000, 1000, 3000)
	end(t, agent, low1)
	c.Report("n", 2, reportOf(t, agent), start)
	if !c.FitsAfterReport("n", 1, high) {
		t.Error("not woken by the report")
	}
}

// TestHoldKeepsFractions: CPUs that become free while pods are preempted are held for the waiting pod, also if they
// are only a part of its need.
func TestHoldKeepsFractions(t *testing.T) {
	c, agent, low1, high := preempting(t, 1600, 1600, 2400)
	wants(t, c, "n", pod(t, "small", sensitive("app", 400)), "CPUs are reserved for pods that cannot start yet")
	end(t, agent, low1)
	c.Report("n", 2, reportOf(t, agent), start)
	wants(t, c, "n", high, "")
}
