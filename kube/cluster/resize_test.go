package cluster

import (
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestResized: during a resize, a pod counts with the larger of its request and its limit in the node's
// report.
func TestResized(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	of := func(limit hybrid.Milli) *Pod { return pod(t, "web", sensitive("app", limit), flexible("log", 500)) }
	web := of(1000)
	create(t, agent, web)
	c.Report("n", 1, reportOf(t, agent), start)
	c.Bound("n", web, start)
	half, two := pod(t, "half", sensitive("app", 2500)), pod(t, "two", sensitive("app", 2000))
	wantRefusal(t, c, "n", half, "")

	c.Bound("n", of(1500), start) // the node has not resized the container yet
	wantRefusal(t, c, "n", half, "no capacity (500m missing)")
	wantRefusal(t, c, "n", two, "")
	c.Report("n", 2, reportOf(t, agent), start)
	wantRefusal(t, c, "n", half, "no capacity (500m missing)")
	resize(t, agent, "web/app", 1500)
	c.Report("n", 3, reportOf(t, agent), start)
	wantRefusal(t, c, "n", half, "no capacity (500m missing)")
	if got := c.Totals(); got != (Totals{Reporting: 1}) {
		t.Errorf("got %+v, want no reservation for a reported pod", got)
	}
	c.Bound("n", of(1000), start)
	wantRefusal(t, c, "n", half, "no capacity (500m missing)")
	resize(t, agent, "web/app", 1000)
	c.Report("n", 4, reportOf(t, agent), start)
	wantRefusal(t, c, "n", half, "")
}

// TestResizeRefused: a resize that does not fit blocks no other pod. A resize that the node does not apply is
// dropped after the timeout.
func TestResizeRefused(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	web := pod(t, "web", sensitive("app", 1000))
	create(t, agent, web)
	c.Report("n", 1, reportOf(t, agent), start)
	c.Bound("n", web, start)
	three := pod(t, "three", sensitive("app", 3000))
	c.Bound("n", pod(t, "web", sensitive("app", 8000)), start.Add(time.Minute))
	wantRefusal(t, c, "n", three, "")
	c.Bound("n", pod(t, "web", sensitive("app", 2000)), start.Add(2*time.Minute))
	wantRefusal(t, c, "n", three, "no capacity (1 CPU missing)")
	if gone := c.Expire(start.Add(patience + time.Minute)); gone != nil {
		t.Errorf("expired before the timeout: %+v", gone)
	}
	wantRefusal(t, c, "n", three, "no capacity (1 CPU missing)")
	if gone := c.Expire(start.Add(patience + 2*time.Minute + time.Second)); gone != nil {
		t.Errorf("expired: %+v, although the node reports the pod", gone)
	}
	wantRefusal(t, c, "n", three, "")
}

func resize(t *testing.T, n *hybrid.Node, id string, limit hybrid.Milli) {
	t.Helper()
	plan, err := n.PlanResize(id, limit, 0)
	if err == nil {
		err = n.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
}
